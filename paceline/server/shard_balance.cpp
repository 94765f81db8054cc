// The part of a ServerShard that moves buckets of sparse tables between servers: see Note [Moving buckets] in
// bucket_share.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "paceline/core/error.hpp"
#include "paceline/server/shard.hpp"
#include "paceline/server/sparse_shard_table.hpp"

namespace paceline {
namespace {

constexpr std::size_t kRowsInMessage = 4096;

bool names_rows(Verb verb) {
  return verb == Verb::put || verb == Verb::push || verb == Verb::pull || verb == Verb::restore;
}

}  // namespace

BucketShare& ServerShard::buckets_of(const TableRequest& request) {
  OpenTable& open = table_of(request);
  const std::int64_t every = open.table->spec.balance_every;
  if (open.buckets == nullptr || request.header.clock == 0 || request.header.clock % every != 0)
    throw Error(Code::invalid, fmt::format("a {} at clock {} for table '{}', which does not share its load anew then",
                                           name(request.header.verb), request.header.clock, open.table->spec.name));
  return *open.buckets;
}

void ServerShard::tell_loads(int worker, const TableRequest& request) {
  answer(worker, request, &table_of(request), Status::done, encode_loads(buckets_of(request).loads()));
}

void ServerShard::plan(int worker, const TableRequest& request) {
  BucketShare& buckets = buckets_of(request);
  const auto loads = decode_loads(sentence_of(request));
  if (!loads) throw Error(Code::invalid, "a plan is asked for with loads that are malformed");
  answer(worker, request, &table_of(request), Status::done, encode_owners(buckets.plan(request.header.clock, *loads)));
}

void ServerShard::adopt(int worker, const TableRequest& request) {
  BucketShare& buckets = buckets_of(request);
  const auto owners = decode_owners(sentence_of(request), options_.place.servers);
  if (!owners) throw Error(Code::invalid, "owners of buckets are malformed");
  buckets.adopt(request.header.clock, *owners);
  answer(worker, request, &table_of(request), Status::done);
  hand_over();
}

void ServerShard::hand_over() {
  for (OpenTable& open : tables_) {
    if (open.buckets == nullptr || !broken_.empty()) continue;
    const std::int64_t every = open.table->spec.balance_every;
    open.buckets->forget_plans(clocks_.slowest() - clocks_.slowest() % every);
    while (const auto due = open.buckets->take_due(clocks_.slowest())) hand_over(open, *due);
  }
}

// Rows stay here unread, since nothing is ever taken out of a table; they are overwritten if their bucket comes back.
void ServerShard::hand_over(OpenTable& open, const BucketShare::HandOver& due) {
  std::vector<HandedRows> to_server(static_cast<std::size_t>(options_.place.servers));
  const auto send = [&](std::size_t server, bool last) {
    HandedRows& handed = to_server[server];
    handed.table = open.table->spec.name;
    handed.step = due.step;
    handed.last = last;
    handovers_.push_back({static_cast<int>(server), encode(handed)});
    handed.rows = {};
  };
  SparseSnapshot rows = static_cast<SparseShardTable&>(*open.table).rows().snapshot();
  for (RowBatch batch = rows.next(kRowsInMessage); !batch.keys.empty(); batch = rows.next(kRowsInMessage)) {
    for (std::size_t row = 0; row < batch.keys.size(); ++row) {
      const int to = due.to[bucket_of_key(batch.keys[row])];
      if (to < 0) continue;
      append_rows(batch, {row, row + 1}, batch.keys.size(), to_server[static_cast<std::size_t>(to)].rows);
      if (to_server[static_cast<std::size_t>(to)].rows.keys.size() == kRowsInMessage)
        send(static_cast<std::size_t>(to), false);
    }
  }
  const std::set<int> servers(due.to.begin(), due.to.end());
  for (const int server : servers) {
    if (server >= 0) send(static_cast<std::size_t>(server), true);
  }
}

void ServerShard::take_rows(int server, std::span<const std::byte> message) {
  try {
    const HandedRows handed = decode_handed_rows(message);
    const auto open = std::find_if(tables_.begin(), tables_.end(),
                                   [&](const OpenTable& each) { return each.table->spec.name == handed.table; });
    if (open == tables_.end() || open->buckets == nullptr)
      throw Error(Code::refused, fmt::format("rows of table '{}' came from server {}", handed.table, server));
    SparseRows& rows = static_cast<SparseShardTable&>(*open->table).rows();
    if (handed.rows.values.size() != handed.rows.keys.size() * open->table->spec.width)
      throw Error(Code::refused, "rows that another server handed over are malformed");
    const AddOutcome outcome = rows.put(handed.rows);
    if (!outcome.complaint.empty()) throw Error(Code::refused, outcome.complaint);
    if (!handed.last) return;
    open->buckets->arrive(server, handed.step);
  } catch (const Error& error) {
    return break_off(error.what());  // rows are missing from now on
  }
  release_held();
  hand_over();
}

// Whether it names rows that have still to come.
bool ServerShard::must_wait(int worker, std::span<const std::byte> message) {
  const RequestHeader header = header_of(message);
  const bool all_rows = header.verb == Verb::snapshot;
  if (!(names_rows(header.verb) || all_rows) || header.table >= tables_.size()) return false;
  const auto& buckets = tables_[header.table].buckets;
  if (buckets == nullptr || !buckets->awaits_any() || !broken_.empty()) return false;
  if (all_rows) return buckets->awaits_any(header.clock);
  try {
    const TableRequest request = parse_request(message);
    if (header.verb == Verb::restore)
      return buckets->awaits(header.clock, decode_table_piece(sentence_of(request)).rows.keys);
    const auto rows = lists_of(worker).rows_of(request);
    return rows && buckets->awaits(header.clock, rows->keys);
  } catch (const Error&) {
    return false;  // it is answered as what it is
  }
}

void ServerShard::release_held() {
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    auto& held = workers_[worker].held;
    while (!held.empty() && !must_wait(static_cast<int>(worker), held.front())) {
      std::vector<std::byte> message = std::move(held.front());
      held.pop_front();
      take(static_cast<int>(worker), message);
    }
  }
}

}  // namespace paceline
