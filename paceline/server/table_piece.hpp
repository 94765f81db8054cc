// TablePiece: some rows of a table with what its rule remembers of them, as a snapshot gives them and a restore takes
// them, whatever the number of servers on either side. A value; its bytes, which also lie in files, are in
// docs/wire.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/server/placement.hpp"
#include "paceline/server/row_batch.hpp"
#include "paceline/server/table_spec.hpp"

namespace paceline {

struct TablePiece {
  RowRange range = {};  // of a dense table, whose rows have no keys
  RowBatch rows = {};

  std::uint64_t size() const { return rows.keys.empty() ? range.size() : rows.keys.size(); }
};

std::string encode(const TablePiece& piece);
// Throws Error{invalid}: malformed.
TablePiece decode_table_piece(std::string_view bytes);

// Why this cannot be a piece of such a table; empty if it can.
std::string objection(const TableSpec& spec, const TablePiece& piece);

// Rows `part` of a batch that has so many, counted from its beginning.
void append_rows(const RowBatch& from, RowRange part, std::uint64_t rows, RowBatch& to);
// Of a dense table: those of its rows, which the piece has.
TablePiece part_of(const TablePiece& piece, RowRange rows);

}  // namespace paceline
