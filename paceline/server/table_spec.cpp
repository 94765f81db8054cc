#include "paceline/server/table_spec.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"
#include "paceline/server/row_initializer.hpp"
#include "paceline/server/update_rule.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 40;  // of a dense table: 4 TiB, more than any job has
constexpr std::uint32_t kMostWidth = 1 << 24;
constexpr std::int64_t kLongestLife = 1 << 30;

[[noreturn]] void refuse(const TableSpec& spec, const std::string& why) {
  throw Error(Code::invalid, fmt::format("table '{}' {}", spec.name, why));
}

}  // namespace

void check(const TableSpec& spec) {
  if (spec.name.empty() || spec.name.size() > 256) refuse(spec, "needs a name of 1 to 256 bytes");
  if (spec.width == 0 || spec.width > kMostWidth)
    refuse(spec, fmt::format("has rows of {} floats; 1 to {} can be", spec.width, kMostWidth));
  const bool dense = spec.kind == TableSpec::Kind::dense;
  if (dense && (spec.rows == 0 || spec.rows > kMostElements / spec.width))
    refuse(spec, fmt::format("is dense and has {} rows of {} floats; 1 row to {} floats in all can be", spec.rows,
                             spec.width, kMostElements));
  if (spec.storage != DType::f32 && spec.storage != DType::f16 && spec.storage != DType::bf16)
    refuse(spec, "keeps its values as something else than f32, f16 or bf16");
  if (dense && spec.storage != DType::f32) refuse(spec, "is dense; only sparse tables keep f16 or bf16");
  if (!dense && spec.compensation != 0)
    refuse(spec, "is sparse; delay compensation needs the rows as each worker has read them, which dense tables keep");
  if (dense && (spec.admit_after != 0 || spec.expire_after != 0 || spec.budget_bytes != 0))
    refuse(spec, "is dense; admission, expiry and a budget are for sparse tables");
  if (spec.balance_every != 0 && (dense || spec.admit_after > 1 || spec.expire_after != 0 || spec.budget_bytes != 0 ||
                                  spec.balance_every > kLongestLife))
    refuse(spec,
           fmt::format("shares its load anew every {} clocks; that is for sparse tables without admission, expiry "
                       "and budget, and for 1 to {} clocks",
                       spec.balance_every, kLongestLife));
  if (spec.expire_after < 0 || spec.expire_after > kLongestLife)
    refuse(spec, fmt::format("expires after {} clocks; 0 to {} can be", spec.expire_after, kLongestLife));
  if (!(spec.compensation >= 0) || std::isinf(spec.compensation))
    refuse(spec, fmt::format("has the delay compensation {}; it is a number from 0", spec.compensation));
  parse_rule(spec.rule);
  parse_initializer(spec.init);
}

std::string encode(const TableSpec& spec) {
  return Packer()
      .text(spec.name)
      .number(static_cast<std::uint8_t>(spec.kind))
      .number(spec.rows)
      .number(spec.width)
      .text(spec.rule)
      .text(spec.init)
      .number(spec.seed)
      .number(static_cast<std::uint8_t>(spec.storage))
      .number(static_cast<std::uint8_t>(spec.divide_by_staleness))
      .number(std::bit_cast<std::uint64_t>(spec.compensation))
      .number(spec.admit_after)
      .number(spec.expire_after)
      .number(spec.budget_bytes)
      .number(spec.balance_every)
      .take();
}

TableSpec decode_table_spec(std::string_view bytes) {
  Unpacker reader(bytes);
  TableSpec spec;
  spec.name = reader.text();
  const auto kind = reader.number<std::uint8_t>();
  spec.rows = reader.number<std::uint64_t>();
  spec.width = reader.number<std::uint32_t>();
  spec.rule = reader.text();
  spec.init = reader.text();
  spec.seed = reader.number<std::uint64_t>();
  spec.storage = static_cast<DType>(reader.number<std::uint8_t>());
  spec.divide_by_staleness = reader.number<std::uint8_t>() != 0;
  spec.compensation = std::bit_cast<double>(reader.number<std::uint64_t>());
  spec.admit_after = reader.number<std::uint32_t>();
  spec.expire_after = reader.number<std::int64_t>();
  spec.budget_bytes = reader.number<std::uint64_t>();
  spec.balance_every = reader.number<std::uint32_t>();
  if (!reader.complete() || kind > static_cast<std::uint8_t>(TableSpec::Kind::sparse))
    throw Error(Code::invalid, "a table's description is malformed");
  spec.kind = static_cast<TableSpec::Kind>(kind);
  check(spec);
  return spec;
}

}  // namespace paceline
