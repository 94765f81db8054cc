// combine_updates: the updates of several workers as fewer that do the same, for a relay to send on. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "paceline/server/shard_table.hpp"
#include "paceline/server/table_spec.hpp"

namespace paceline {

// Rows of a table with a float for each of their elements, in memory of its own.
struct RowChanges {
  int worker = 0;
  double rate = 0;
  RowRange range = {};                   // of a dense table
  std::vector<std::uint64_t> keys = {};  // of a sparse one
  std::vector<float> values = {};

  RowsOf rows() const { return {.range = range, .keys = keys}; }
};

// The sums, taken in worker order and within a worker in the order given. Of a sparse table one, with distinct keys in
// the order in which they first occur; of a dense one as many as there are ranges that do not touch each other. Every
// row of it was in one of the updates: with a rule that has a memory, a zero is an update too.
std::vector<RowChanges> combine_updates(const TableSpec& spec, std::vector<RowChanges> updates);

// Rows of a dense table that are listed, as a range with zeros for those between.
RowChanges spread_rows(std::span<const std::uint64_t> rows, std::span<const float> values, std::size_t width);

// Adds to `values`, which are those of `rows`, what `change` has for the same rows, if `counts` says so for the row.
void add_to_rows(const TableSpec& spec, const RowsOf& rows, std::span<float> values, const RowChanges& change,
                 const std::function<bool(std::uint64_t row)>& counts);

}  // namespace paceline
