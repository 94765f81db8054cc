// A worker's copy of a dense table, for policies that allow stale reads (ssp, essp). With ssp it is fetched anew when
// it is too old; with essp a pull is always under way that servers answer as soon as there is news.
#include <algorithm>

#include "paceline/server/session_state.hpp"

namespace paceline {
namespace {

std::span<float> part_of(std::span<float> values, RowRange all, RowRange part, std::size_t width) {
  return values.subspan((part.first - all.first) * width, part.size() * width);
}

}  // namespace

bool Session::State::is_fresh(const Table::State& table, std::int64_t required) const {
  return !table.copy.contained.empty() && least(table.copy.contained) >= required;
}

void Session::State::read_copy(Table::State& table, RowRange rows, std::span<float> into) {
  const std::int64_t required = must_contain(options.policy, now);
  const bool eager = delivers_eagerly(options.policy);
  if (table.fetch.test()) take_fetch(table);
  if (is_fresh(table, required)) ++counters.cached_reads;
  const TimePoint start = endpoint.clock().now();
  while (!is_fresh(table, required)) {
    if (!table.fetching) start_fetch(table, required);
    while (!table.fetch.test()) endpoint.idle(kNever);
    take_fetch(table);
  }
  counters.waited += endpoint.clock().now() - start;
  copy_out(table, rows, into);
  note_read(table.copy.contained, required);
  if (eager && !table.fetching) start_fetch(table, least(table.copy.contained) + 1);
}

// Where no copy is kept.
void Session::State::read_servers(Table::State& table, RowRange rows, std::span<float> into) {
  const std::int64_t required = must_contain(options.policy, now);
  auto pull = request(table);
  ask_range(*pull, Verb::pull, rows, {}, into, 0, required);
  wait_timed(*pull);
  note_read(contained_in(*pull), required);
  add_own(table, *pull, rows, into);
}

void Session::State::start_fetch(Table::State& table, std::int64_t required) {
  table.fetched.resize(table.spec.elements());
  auto pull = request(table);
  ask_range(*pull, Verb::pull, {0, table.spec.rows}, {}, table.fetched, 0, required);
  table.fetch = TablePending(std::move(pull));
  table.fetching = true;
}

void Session::State::take_fetch(Table::State& table) {
  if (!table.fetching) return;
  table.fetching = false;
  const auto reply = table.fetch.release();
  wait(*reply);
  take_copy(table, *reply);
}

// The values are in `fetched`. Those that are older than the copy, because it was renewed meanwhile, are not taken.
void Session::State::take_copy(Table::State& table, const TablePending::State& reply) {
  std::vector<std::int64_t> contained = contained_in(reply);
  contained[static_cast<std::size_t>(options.worker)] = kEverything;  // its own are added here
  for (std::size_t w = 0; w < table.copy.contained.size(); ++w) {
    if (contained[w] < table.copy.contained[w]) return;
  }
  std::swap(table.copy.values, table.fetched);
  table.copy.contained = std::move(contained);
  add_own(table, reply, {0, table.spec.rows}, table.copy.values);
}

bool Session::State::keeps_copies() const {
  return options.policy.kind == Policy::Kind::ssp || options.policy.kind == Policy::Kind::essp;
}

void Session::State::copy_out(const Table::State& table, RowRange rows, std::span<float> into) const {
  const auto first = table.copy.values.begin() + static_cast<std::ptrdiff_t>(rows.first * table.spec.width);
  std::copy_n(first, into.size(), into.begin());
}

// Beside a fetch that may be waiting for news.
void Session::State::renew_copy(Table::State& table) {
  std::vector<float> values(table.spec.elements());
  auto pull = request(table);
  ask_range(*pull, Verb::pull, {0, table.spec.rows}, {}, values, 0, 0);
  wait(*pull);
  if (table.fetch.test()) take_fetch(table);
  std::swap(values, table.fetched);
  take_copy(table, *pull);
  if (table.fetching) std::swap(values, table.fetched);  // where its values still arrive
}

void Session::State::note_own(Table::State& table, const TablePending::State& push, RowRange rows,
                              std::span<const float> changes) {
  if (!keeps_copies() && apply_rule(options.policy) != Apply::when_all_have_clocked) return;
  auto& own = table.own.emplace_back();
  own.rows = rows;
  own.changes.assign(changes.begin(), changes.end());
  own.step = now;
  own.sequences.resize(links.size());
  for (const auto& flight : push.flights)
    own.sequences[static_cast<std::size_t>(flight->server)] = flight->header.sequence;
  if (table.copy.contained.empty()) return;
  const auto target = part_of(table.copy.values, {0, table.spec.rows}, rows, table.spec.width);
  for (std::size_t i = 0; i < target.size(); ++i) target[i] += changes[i];
}

// Own updates that the reply does not contain. Those that it does are not needed any more: later replies do too.
void Session::State::add_own(Table::State& table, const TablePending::State& reply, RowRange rows,
                             std::span<float> into) {
  const bool steps_wait = apply_rule(options.policy) == Apply::when_all_have_clocked;
  const int servers = static_cast<int>(options.servers.size());
  const auto is_in = [&](const Table::State::OwnUpdate& own, const TableFlight& flight) {
    const auto server = static_cast<std::size_t>(flight.server);
    return steps_wait ? own.step < now : own.sequences[server] <= flight.heard;
  };
  for (const auto& own : table.own) {
    for (const auto& flight : reply.flights) {
      if (is_in(own, *flight)) continue;
      const RowRange kept = range_of_server(table.spec.rows, table.spec.width, servers, flight->server);
      const RowRange part = overlap(overlap(rows, own.rows), kept);
      const auto target = part_of(into, rows, part, table.spec.width);
      const auto* change = own.changes.data() + (part.first - own.rows.first) * table.spec.width;
      for (std::size_t i = 0; i < target.size(); ++i) target[i] += change[i];
    }
  }
  const bool whole = rows == RowRange{0, table.spec.rows};
  std::erase_if(table.own, [&](const Table::State::OwnUpdate& own) {
    if (steps_wait) return own.step < now;
    return whole && std::all_of(reply.flights.begin(), reply.flights.end(),
                                [&](const auto& flight) { return is_in(own, *flight); });
  });
}

}  // namespace paceline
