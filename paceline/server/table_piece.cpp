#include "paceline/server/table_piece.hpp"

#include <fmt/format.h>

#include <cstring>
#include <span>

#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"
#include "paceline/server/update_rule.hpp"

namespace paceline {
namespace {

template <class T>
std::string_view raw(const std::vector<T>& items) {
  return {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T)};
}

template <class T>
std::vector<T> take(Unpacker& reader, std::uint64_t count, std::size_t most) {
  if (count > most / sizeof(T)) count = most;  // more than there is: the reader turns bad
  const std::string_view bytes = reader.bytes(count * sizeof(T));
  std::vector<T> items(bytes.size() / sizeof(T));
  if (!items.empty()) std::memcpy(items.data(), bytes.data(), items.size() * sizeof(T));
  return items;
}

template <class T>
void append_items(const std::vector<T>& from, RowRange part, std::uint64_t rows, std::vector<T>& to) {
  const std::uint64_t each = from.size() / rows;
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(part.first * each),
            from.begin() + static_cast<std::ptrdiff_t>(part.last * each));
}

}  // namespace

std::string encode(const TablePiece& piece) {
  const RowBatch& rows = piece.rows;
  Packer packer;
  packer.number(piece.range.first).number(piece.range.last);
  for (const std::size_t count : {rows.keys.size(), rows.values.size(), rows.state.size(), rows.steps.size()})
    packer.number(static_cast<std::uint64_t>(count));
  packer.bytes(raw(rows.keys)).bytes(raw(rows.values)).bytes(raw(rows.state)).bytes(raw(rows.steps));
  return packer.take();
}

TablePiece decode_table_piece(std::string_view bytes) {
  Unpacker reader(bytes);
  TablePiece piece;
  piece.range.first = reader.number<std::uint64_t>();
  piece.range.last = reader.number<std::uint64_t>();
  std::uint64_t counts[4];
  for (std::uint64_t& count : counts) count = reader.number<std::uint64_t>();
  piece.rows.keys = take<std::uint64_t>(reader, counts[0], bytes.size());
  piece.rows.values = take<float>(reader, counts[1], bytes.size());
  piece.rows.state = take<float>(reader, counts[2], bytes.size());
  piece.rows.steps = take<std::uint32_t>(reader, counts[3], bytes.size());
  if (!reader.complete() || piece.range.first > piece.range.last)
    throw Error(Code::invalid, "a piece of a table is malformed");
  return piece;
}

std::string objection(const TableSpec& spec, const TablePiece& piece) {
  const bool dense = spec.kind == TableSpec::Kind::dense;
  const RowBatch& rows = piece.rows;
  if (dense ? !rows.keys.empty() : piece.range.size() != 0)
    return fmt::format("table '{}' is {}, and the piece is of one that is not", spec.name, dense ? "dense" : "sparse");
  if (dense && piece.range.last > spec.rows)
    return fmt::format("table '{}' has rows 0 to {}, and the piece {} to {}", spec.name, spec.rows, piece.range.first,
                       piece.range.last);
  const std::uint64_t floats = piece.size() * spec.width;
  const RuleKind kind = parse_rule(spec.rule).kind;
  const std::uint64_t steps = counts_steps(kind) ? piece.size() : 0;
  if (rows.values.size() == floats && rows.state.size() == floats * state_floats(kind) && rows.steps.size() == steps)
    return {};
  return fmt::format(
      "{} rows of table '{}' by {} have {} values, {} floats of state and {} step counts, not {}, {} and {}",
      piece.size(), spec.name, spec.rule, floats, floats * state_floats(kind), steps, rows.values.size(),
      rows.state.size(), rows.steps.size());
}

void append_rows(const RowBatch& from, RowRange part, std::uint64_t rows, RowBatch& to) {
  append_items(from.keys, part, rows, to.keys);
  append_items(from.values, part, rows, to.values);
  append_items(from.state, part, rows, to.state);
  append_items(from.steps, part, rows, to.steps);
}

TablePiece part_of(const TablePiece& piece, RowRange rows) {
  TablePiece part{.range = rows};
  append_rows(piece.rows, {rows.first - piece.range.first, rows.last - piece.range.first}, piece.size(), part.rows);
  return part;
}

}  // namespace paceline
