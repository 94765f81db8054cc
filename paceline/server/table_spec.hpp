// TableSpec: what a table is, as a worker asks for it and every server keeps it. All workers open a table with the same
// spec; who comes with another one is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/core/dtype.hpp"

namespace paceline {

struct TableSpec {
  enum class Kind : std::uint8_t {
    dense,   // rows 0 … rows-1, all there from the start, placed in ranges over the servers
    sparse,  // any 64-bit key, placed by its hash; a row is there when it is first pushed
  };
  std::string name;
  Kind kind = Kind::sparse;
  std::uint64_t rows = 0;            // of a dense table
  std::uint32_t width = 1;           // floats in a row
  std::string rule = "add";          // what an update does to a row: see update_rule.hpp
  std::string init = "zero";         // what a row begins with: zero, or uniform:0.1 and normal:0.01 by seed and key
  std::uint64_t seed = 1;            // of init
  DType storage = DType::f32;        // or f16, bf16: how values are kept, not how they are computed with
  bool divide_by_staleness = false;  // of each update, by how many others it has missed (Zhang et al. 2016)
  double compensation = 0;           // lambda of delay compensation (Zheng et al. 2017), dense tables; 0: none
  std::uint32_t admit_after = 0;     // sparse: a key gets its row at this push; 0 and 1: at once
  std::int64_t expire_after = 0;     // sparse: clocks without a push or read after which a row goes; 0: never
  std::uint64_t budget_bytes = 0;    // sparse: of memory on each server, above which pushes are refused; 0: none
  std::uint32_t balance_every = 0;   // sparse: clocks after which servers may share their load anew; 0: never

  std::uint64_t elements() const { return rows * width; }  // of a dense table
  bool operator==(const TableSpec&) const = default;
};

// Throws Error{invalid} with a sentence that names the table.
void check(const TableSpec& spec);

std::string encode(const TableSpec& spec);
// Throws Error{invalid}: what came is not a spec, or not one that check() lets pass.
TableSpec decode_table_spec(std::string_view bytes);

}  // namespace paceline
