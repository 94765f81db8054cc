#include "paceline/server/relay_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/server/serve_loop.hpp"

namespace paceline {
namespace {

const RelayOptions& checked(const RelayOptions& options) {
  const Policy::Kind kind = options.parent.policy.kind;
  if (kind == Policy::Kind::bsp || kind == Policy::Kind::ssp || kind == Policy::Kind::essp) return options;
  throw Error(
      Code::invalid,
      fmt::format("a relay cannot keep what {} promises: it sends its workers' updates of a step as one when all "
                  "have ended it; write bsp, ssp:S or essp:S, or do without relays",
                  options.parent.policy.text()));
}

}  // namespace

RelayShard::RelayShard(Endpoint& endpoint, const RelayOptions& options)
    : endpoint_(endpoint),
      options_(checked(options)),
      parents_(endpoint, options.parent),
      clocks_(static_cast<int>(options.children.size())),
      children_(options.children.size()) {}

RelayShard::~RelayShard() = default;

bool RelayShard::deserted() const {
  return std::all_of(children_.begin(), children_.end(), [](const Child& child) { return child.gone; });
}

// Whether updates that the parents do not have are added to reads: see Note [Views].
bool RelayShard::adds() const { return apply_rule(options_.parent.policy) == Apply::at_once; }

// ---- requests

void RelayShard::handle(int child, std::vector<std::byte>&& message) {
  TableRequest request;
  request.header = header_of(message);
  Child& asking = children_[static_cast<std::size_t>(child)];
  if (request.header.sequence != 0) {
    if (request.header.sequence <= asking.last_sequence) return;  // it came twice
    asking.last_sequence = request.header.sequence;
  }
  try {
    request = parse_request(message);
    dispatch(child, request);
  } catch (const Error& error) {
    answer({child, request.header}, Status::refused, error.what());
  } catch (const std::bad_alloc&) {
    answer({child, request.header}, Status::refused,
           fmt::format("the relay has not enough memory for this {}", name(request.header.verb)));
  }
}

void RelayShard::dispatch(int child, const TableRequest& request) {
  switch (request.header.verb) {
    case Verb::open: return open(child, request);
    case Verb::put: return put(child, request);
    case Verb::push: return push(child, request);
    case Verb::pull: return pull(child, request);
    case Verb::clock:
      if (clocks_.advance(child, request.header.clock)) settle();
      return;
    case Verb::leave: leave(child); return answer({child, request.header}, Status::done);
    case Verb::statistics: return tell_statistics(child, request);
    case Verb::loads:
    case Verb::plan:
    case Verb::adopt: throw Error(Code::invalid, "a relay has no buckets");
    case Verb::snapshot:
    case Verb::piece:
    case Verb::end_snapshot:
    case Verb::restore:
      throw Error(Code::invalid, "a relay keeps no rows; snapshots are for workers whose servers are no relays");
    case Verb::lost:
      if (adds())
        throw Error(Code::invalid, "only where all wait for each other does a lost worker concern the servers");
      return break_off(std::string(sentence_of(request)));
  }
}

void RelayShard::open(int child, const TableRequest& request) {
  const TableSpec spec = decode_table_spec(sentence_of(request));
  if (adds() && spec.rule != "add")
    throw Error(Code::invalid,
                fmt::format("table '{}' has the rule {}; behind a relay {} takes tables with the rule add, because a "
                            "worker must see its own updates before the servers have them",
                            spec.name, spec.rule, options_.parent.policy.text()));
  if (spec.balance_every != 0)
    throw Error(Code::invalid,
                fmt::format("table '{}' shares its load anew, which is not for workers behind a relay", spec.name));
  std::size_t number = 0;
  while (number < tables_.size() && tables_[number].state->spec.name != spec.name) ++number;
  if (number == tables_.size()) {
    Table::State& state = parents_.tables.emplace_back();
    state.spec = spec;
    state.drops_zeros = may_drop_zeros(spec, options_.parent.policy);
    state.servers.resize(parents_.links.size());
    try {
      parents_.open(state);
    } catch (const Error&) {
      parents_.tables.pop_back();
      throw;
    }
    tables_.emplace_back().state = &state;
  } else if (tables_[number].state->spec != spec) {
    throw Error(Code::mismatch, fmt::format("table '{}' is there already, opened by another worker with other words; "
                                            "all workers must open it alike",
                                            spec.name));
  }
  Reader reader{child, request.header};
  reader.header.table = static_cast<std::uint32_t>(number);
  answer(reader, Status::done);
}

RelayShard::RelayTable& RelayShard::table_of(const TableRequest& request) {
  if (request.header.table < tables_.size()) return tables_[request.header.table];
  throw Error(Code::invalid, fmt::format("a {} names table {}, and there are {}", name(request.header.verb),
                                         request.header.table, tables_.size()));
}

std::optional<RowsOf> RelayShard::rows_of(int child, const TableRequest& request, const RelayTable& table) {
  KeyLists& lists = children_[static_cast<std::size_t>(child)].lists;
  lists.remember(request);
  const auto rows = lists.rows_of(request);
  const TableSpec& spec = table.state->spec;
  const bool dense = spec.kind == TableSpec::Kind::dense;
  if (!dense && request.header.rows == RowNames::range)
    throw Error(Code::invalid, fmt::format("table '{}' is sparse and has no ranges", spec.name));
  if (!dense || !rows) return rows;
  const bool adds_list = request.header.verb == Verb::push && table.state->drops_zeros;
  if (!rows->keys.empty() && !adds_list)
    throw Error(Code::invalid,
                fmt::format("rows of the dense table '{}' are named by a range, not by a list", spec.name));
  const auto beyond = [&](std::uint64_t row) { return row >= spec.rows; };
  if (rows->range.last > spec.rows || std::any_of(rows->keys.begin(), rows->keys.end(), beyond))
    throw Error(Code::invalid, fmt::format("a {} names rows beyond the {} of table '{}'", name(request.header.verb),
                                           spec.rows, spec.name));
  return rows;
}

std::span<float> RelayShard::mapped(int child, const MappedValues& where, std::size_t floats) const {
  const auto memory = endpoint_.map(options_.children[static_cast<std::size_t>(child)], where.region);
  const bool fits = memory && where.offset % sizeof(float) == 0 && where.offset <= memory->size() &&
                    floats <= (memory->size() - where.offset) / sizeof(float);
  if (!fits) throw Error(Code::invalid, "a request points at memory that the worker does not share");
  return {reinterpret_cast<float*>(memory->data() + where.offset), floats};
}

std::optional<RowChanges> RelayShard::changes_of(int child, const TableRequest& request, const RelayTable& table) {
  const auto rows = rows_of(child, request, table);
  if (!rows) return std::nullopt;
  const TableSpec& spec = table.state->spec;
  const std::size_t floats = (rows->keys.empty() ? rows->range.size() : rows->keys.size()) * spec.width;
  const std::span<const float> values =
      request.header.push_from.region == 0 ? request.values : mapped(child, request.header.push_from, floats);
  if (values.size() != floats)
    throw Error(Code::invalid,
                fmt::format("{} floats of table '{}' are needed, not {}", floats, spec.name, values.size()));
  RowChanges changes;
  if (spec.kind == TableSpec::Kind::dense && !rows->keys.empty()) {
    changes = spread_rows(rows->keys, values, spec.width);
  } else {
    changes.range = rows->range;
    changes.keys.assign(rows->keys.begin(), rows->keys.end());
    changes.values.assign(values.begin(), values.end());
  }
  changes.worker = child;
  changes.rate = request.header.rate;
  return changes;
}

// What was asked for before must not be taken for what is there after.
void RelayShard::put(int child, const TableRequest& request) {
  RelayTable& table = table_of(request);
  auto changes = changes_of(child, request, table);
  if (!changes) return answer({child, request.header}, Status::forgotten);
  if (!broken_.empty()) return answer({child, request.header}, Status::worker_lost, broken_);
  for (View& view : table.views) view.outdated = true;
  Setting& setting = settings_.emplace_back();
  setting.by = {child, request.header};
  setting.rows = std::move(*changes);
  setting.put = parents_.request(*table.state);
  const RowChanges& rows = setting.rows;
  table.state->spec.kind == TableSpec::Kind::dense
      ? parents_.ask_range(*setting.put, Verb::put, rows.range, rows.values, {}, 0, 0)
      : parents_.ask_keys(*setting.put, Verb::put, rows.keys, rows.values, {}, 0, 0);
}

void RelayShard::push(int child, const TableRequest& request) {
  RelayTable& table = table_of(request);
  auto changes = changes_of(child, request, table);
  if (!changes) return answer({child, request.header}, Status::forgotten);
  if (!broken_.empty()) return answer({child, request.header}, Status::worker_lost, broken_);
  if (left_ || (!adds() && request.header.clock < parents_.now))
    throw Error(Code::invalid, fmt::format("step {} is over for all workers of this relay", request.header.clock));
  ++table.pushes;
  table.gathered[std::max(request.header.clock, parents_.now)].push_back(std::move(*changes));
  answer({child, request.header}, Status::done);
}

void RelayShard::tell_statistics(int child, const TableRequest& request) {
  const Staleness missed = parents_.updates_missed(*table_of(request).state);
  std::vector<double> numbers = missed.sums();
  const std::vector<double> maxima = missed.maxima();
  numbers.insert(numbers.end(), maxima.begin(), maxima.end());
  const auto bytes = std::as_bytes(std::span(numbers));
  answer({child, request.header}, Status::done, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// ---- clocks

void RelayShard::leave(int child) {
  clocks_.leave(child);
  settle();
}

void RelayShard::lose(int child, const std::string& how) {
  Child& lost = children_[static_cast<std::size_t>(child)];
  if (std::exchange(lost.gone, true)) return;
  const auto is_its = [&](const Reader& reader) { return reader.child == child; };
  for (RelayTable& table : tables_) {
    for (View& view : table.views) std::erase_if(view.readers, is_its);
  }
  std::erase_if(settings_, [&](const Setting& setting) { return is_its(setting.by); });
  clocks_.active(child) && !adds() ? break_off(how) : leave(child);
}

// Under bsp the parents, and so all workers, are told; where it was they who broke off, that changes nothing.
void RelayShard::break_off(const std::string& why) {
  if (!broken_.empty()) return;
  broken_ = why;
  for (RelayTable& table : tables_) {
    for (const View& view : std::exchange(table.views, {})) {
      for (const Reader& reader : view.readers) answer(reader, Status::worker_lost, broken_);
    }
    table.gathered.clear();
    table.sent.clear();
  }
  for (const Setting& setting : std::exchange(settings_, {})) answer(setting.by, Status::worker_lost, broken_);
  if (!adds()) parents_.tell_lost(broken_);
}

// Sends on the steps that all children have ended.
void RelayShard::settle() {
  if (!broken_.empty() || left_) return;
  try {
    while (parents_.now < clocks_.slowest()) {
      for (RelayTable& table : tables_) send_step(table, parents_.now);
      parents_.clock();
    }
    for (int child = 0; child < clocks_.workers(); ++child) {
      if (clocks_.active(child)) return;
    }
    for (RelayTable& table : tables_) {
      while (!table.gathered.empty()) send_step(table, table.gathered.begin()->first);
    }
    left_ = true;
    parents_.leave();
  } catch (const Error& error) {
    break_off(error.what());
  }
}

void RelayShard::send_step(RelayTable& table, std::int64_t step) {
  const auto found = table.gathered.find(step);
  if (found == table.gathered.end()) return;
  std::vector<RowChanges> updates = std::move(found->second);
  table.gathered.erase(found);
  for (RowChanges& sum : combine_updates(table.state->spec, std::move(updates))) send_on(table, std::move(sum));
}

void RelayShard::send_on(RelayTable& table, RowChanges changes) {
  const TableSpec& spec = table.state->spec;
  const bool dense = spec.kind == TableSpec::Kind::dense;
  auto push = parents_.request(*table.state);
  push->copies = true;
  if (spec.rule == "add") {
    dense ? parents_.push_changes(*push, changes.range, changes.values)
          : parents_.push_changes(*push, Table::Keys(changes.keys), changes.values);
  } else {
    dense ? parents_.ask_range(*push, Verb::push, changes.range, changes.values, {}, changes.rate, 0)
          : parents_.ask_keys(*push, Verb::push, changes.keys, changes.values, {}, changes.rate, 0);
  }
  if (adds()) {
    std::vector<std::uint64_t> sequences(parents_.links.size());
    for (const auto& flight : push->flights)
      sequences[static_cast<std::size_t>(flight->server)] = flight->header.sequence;
    table.sent.push_back({std::move(changes), std::move(sequences)});
  }
  parents_.let_go(std::move(push));
}

// ---- answers

// The place of the values.
std::span<float> RelayShard::begin_answer(const Reader& reader, std::span<const std::int64_t> contained,
                                          ReplyHeader header, std::string_view sentence) {
  header.table = reader.header.table;
  header.workers = static_cast<std::uint32_t>(contained.size());
  header.heard = children_[static_cast<std::size_t>(reader.child)].last_sequence;
  if (reader.header.table < tables_.size()) {
    const RelayTable& table = tables_[reader.header.table];
    header.version = table.pushes;
    for (const auto& server : table.state->servers) header.version += server.version;
  }
  const std::size_t values = sizeof header + contained.size_bytes();
  auto message = buffers_.take(values + header.values * sizeof(float));
  std::memcpy(message.data(), &header, sizeof header);
  if (!contained.empty()) std::memcpy(message.data() + sizeof header, contained.data(), contained.size_bytes());
  append(message, std::span<const char>(sentence));
  answers_.push_back({reader.child, reader.header.sequence, std::move(message)});
  return {reinterpret_cast<float*>(answers_.back().message.data() + values), header.values};
}

void RelayShard::answer(const Reader& reader, Status status, std::string_view sentence) {
  begin_answer(reader, {}, {.status = status}, sentence);
}

// ---- the public face

void serve_relay(Endpoint& endpoint, const RelayOptions& options) {
  RelayShard shard(endpoint, options);
  ServeLoop<RelayShard>(endpoint, options.children, shard).run();
}

}  // namespace paceline
