// The part of a ServerShard that gives tables away as they are, and takes them back: Note [Snapshots] in shard.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/error.hpp"
#include "paceline/server/shard.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kPieceFloats = std::uint64_t{64} << 10;  // values and state: long enough to travel well
constexpr std::ptrdiff_t kMostSnapshots = 4;                     // of one worker: each may cost a copy of the table

std::uint64_t most_rows(const TableSpec& spec) {
  return std::max<std::uint64_t>(1, kPieceFloats / (spec.width * (1 + state_floats(parse_rule(spec.rule).kind))));
}

}  // namespace

void ServerShard::begin_snapshot(int worker, const TableRequest& request, OpenTable& open) {
  const auto open_already = std::count_if(open.snapshots.begin(), open.snapshots.end(),
                                          [&](const auto& each) { return each.first.worker == worker; });
  if (open_already == kMostSnapshots)
    throw Error(Code::invalid, fmt::format("worker {} has {} snapshots of table '{}', of which one must end first",
                                           worker, open_already, open.table->spec.name));
  open.snapshots.emplace(OpenTable::SnapshotOf{worker, request.header.sequence}, open.table->snapshot());
  answer(worker, request, &open, Status::done);
}

void ServerShard::tell_piece(int worker, const TableRequest& request) {
  OpenTable& open = table_of(request);
  const auto snapshot = open.snapshots.find({worker, request.header.first});
  if (snapshot == open.snapshots.end())
    throw Error(Code::invalid, fmt::format("worker {} asks for a piece of a snapshot of table '{}' that is not there",
                                           worker, open.table->spec.name));
  const std::uint64_t most = most_rows(open.table->spec);
  const TablePiece piece =
      snapshot->second->next(request.header.count == 0 ? most : std::min(most, request.header.count));
  if (piece.size() == 0) open.snapshots.erase(snapshot);
  answer(worker, request, &open, Status::done, encode(piece));
}

void ServerShard::end_snapshot(int worker, const TableRequest& request) {
  OpenTable& open = table_of(request);
  open.snapshots.erase({worker, request.header.first});
  answer(worker, request, &open, Status::done);
}

void ServerShard::end_snapshots(int worker) {
  for (OpenTable& open : tables_)
    std::erase_if(open.snapshots, [&](const auto& each) { return each.first.worker == worker; });
}

// All that can be wrong with a piece is found before any of it is used; only a table's budget may refuse some rows.
void ServerShard::restore(int worker, const TableRequest& request) {
  OpenTable& open = table_of(request);
  if (!broken_.empty()) return answer(worker, request, &open, Status::worker_lost, broken_);
  const TablePiece piece = decode_table_piece(sentence_of(request));
  std::string why = objection(open.table->spec, piece);
  if (why.empty()) why = objection_to_place(open, piece);
  if (why.empty()) why = open.table->restore(piece);
  answer(worker, request, &open, why.empty() ? Status::done : Status::refused, why);
}

// Where buckets move it is the workers who know which server a row belongs to.
std::string ServerShard::objection_to_place(const OpenTable& open, const TablePiece& piece) const {
  if (open.table->spec.kind == TableSpec::Kind::dense)
    return open.table->objection({.range = piece.range}, piece.rows.values.size());
  if (open.buckets != nullptr) return {};
  for (const std::uint64_t key : piece.rows.keys) {
    const int server = server_of_key(key, options_.place.servers);
    if (server != options_.place.index)
      return fmt::format("the row of key {} of table '{}' belongs to server {}, and this is server {}", key,
                         open.table->spec.name, server, options_.place.index);
  }
  return {};
}

}  // namespace paceline
