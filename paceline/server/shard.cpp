#include "paceline/server/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();

std::string objection_to(const ShardTable& table, const RowsOf& rows, std::size_t floats, Verb verb) {
  if (table.spec.kind == TableSpec::Kind::dense && !rows.keys.empty() && verb != Verb::push)
    return fmt::format("table '{}' is dense and has no keys", table.spec.name);
  return table.objection(rows, floats);
}

}  // namespace

ServerShard::ServerShard(ServerShardOptions options, Map map)
    : options_(std::move(options)),
      map_(std::move(map)),
      clocks_(options_.place.workers),
      workers_(static_cast<std::size_t>(options_.place.workers)) {}

ServerShard::~ServerShard() = default;

bool ServerShard::deserted() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.gone; });
}

ShardTable* ServerShard::find(const std::string& table) const {
  const auto found = std::find_if(tables_.begin(), tables_.end(),
                                  [&](const OpenTable& open) { return open.table->spec.name == table; });
  return found == tables_.end() ? nullptr : found->table.get();
}

// ---- requests

void ServerShard::handle(int worker, std::vector<std::byte>&& message) {
  Worker& asking = workers_[static_cast<std::size_t>(worker)];
  const std::uint64_t sequence = header_of(message).sequence;
  if (sequence != 0) {
    if (sequence <= asking.received) return;  // it came twice
    asking.received = sequence;
  }
  if (!asking.held.empty() || must_wait(worker, message)) {
    asking.held.push_back(std::move(message));
    return;
  }
  take(worker, message);
}

void ServerShard::take(int worker, std::vector<std::byte>& message) {
  TableRequest request;
  request.header = header_of(message);
  if (request.header.sequence != 0) workers_[static_cast<std::size_t>(worker)].last_sequence = request.header.sequence;
  answer_failures(worker, request, [&] {
    request = parse_request(message);
    dispatch(worker, request, message);
  });
}

// A request that goes wrong is answered and changes nothing for others.
void ServerShard::answer_failures(int worker, const TableRequest& request, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    answer(worker, request, nullptr, Status::refused, error.what());
  } catch (const std::bad_alloc&) {
    answer(worker, request, nullptr, Status::refused,
           fmt::format("the server has not enough memory for this {}", name(request.header.verb)));
  }
}

void ServerShard::dispatch(int worker, const TableRequest& request, std::vector<std::byte>& message) {
  switch (request.header.verb) {
    case Verb::open: return open(worker, request);
    case Verb::put:
    case Verb::push: return push(worker, request, message);
    case Verb::pull: return pull(worker, request, message);
    case Verb::clock: return clock(worker, request);
    case Verb::leave: leave(worker); return answer(worker, request, nullptr, Status::done);
    case Verb::statistics: return tell_statistics(worker, request);
    case Verb::lost: return lost(request);
    case Verb::loads: return tell_loads(worker, request);
    case Verb::plan: return plan(worker, request);
    case Verb::adopt: return adopt(worker, request);
    case Verb::snapshot: return answer_or_park(worker, request, message);
    case Verb::piece: return tell_piece(worker, request);
    case Verb::end_snapshot: return end_snapshot(worker, request);
    case Verb::restore: return restore(worker, request);
  }
}

void ServerShard::open(int worker, const TableRequest& request) {
  const TableSpec spec = decode_table_spec({reinterpret_cast<const char*>(request.spec.data()), request.spec.size()});
  std::size_t number = 0;
  while (number < tables_.size() && tables_[number].table->spec.name != spec.name) ++number;
  const bool shares = spec.balance_every != 0 && options_.place.servers > 1;
  if (shares && !options_.reaches_servers)
    throw Error(Code::invalid, fmt::format("table '{}' is to share its load anew, and this server was not told which "
                                           "ranks the others are",
                                           spec.name));
  if (number == tables_.size()) {
    tables_.push_back({.table = make_shard_table(spec, options_.place),
                       .gathered = {},
                       .applied = std::vector<std::int64_t>(workers_.size()),
                       .staleness = {}});
    if (shares) tables_.back().buckets = std::make_unique<BucketShare>(options_.place.index, options_.place.servers);
  } else if (tables_[number].table->spec != spec) {
    throw Error(Code::mismatch, fmt::format("table '{}' is there already, opened by another worker with other words; "
                                            "all workers must open it alike",
                                            spec.name));
  }
  TableRequest about = request;
  about.header.table = static_cast<std::uint32_t>(number);
  answer(worker, about, &tables_[number], Status::done);
}

ServerShard::OpenTable& ServerShard::table_of(const TableRequest& request) {
  if (request.header.table < tables_.size()) return tables_[request.header.table];
  throw Error(Code::invalid, fmt::format("a {} names table {}, and there are {}", name(request.header.verb),
                                         request.header.table, tables_.size()));
}

std::optional<std::span<float>> ServerShard::find_mapped(int worker, const MappedValues& where,
                                                         std::size_t floats) const {
  const auto memory = map_(worker, where.region);
  const bool fits = memory && where.offset % sizeof(float) == 0 && where.offset <= memory->size() &&
                    floats <= (memory->size() - where.offset) / sizeof(float);
  if (!fits) return std::nullopt;
  return std::span(reinterpret_cast<float*>(memory->data() + where.offset), floats);
}

std::span<float> ServerShard::mapped_values(int worker, const MappedValues& where, std::size_t floats) const {
  const auto found = find_mapped(worker, where, floats);
  if (!found) throw Error(Code::invalid, "a request points at memory that the worker does not share");
  return *found;
}

void ServerShard::push(int worker, const TableRequest& request, std::vector<std::byte>& message) {
  OpenTable& open = table_of(request);
  lists_of(worker).remember(request);
  if (!broken_.empty()) return answer(worker, request, &open, Status::worker_lost, broken_);
  const auto rows = lists_of(worker).rows_of(request);
  if (!rows) return answer(worker, request, &open, Status::forgotten);
  const std::size_t floats = open.table->floats_of(*rows);
  const bool mapped = request.header.push_from.region != 0;
  const std::span<const float> values =
      mapped ? mapped_values(worker, request.header.push_from, floats) : request.values;
  if (const std::string why = objection_to(*open.table, *rows, values.size(), request.header.verb); !why.empty())
    return answer(worker, request, &open, Status::refused, why);
  if (request.header.verb == Verb::put) {
    const std::string why = open.table->put(*rows, values);
    return answer(worker, request, &open, why.empty() ? Status::done : Status::refused, why);
  }
  if (open.buckets != nullptr) open.buckets->count(rows->keys);
  Update update{.worker = worker,
                .clock = request.header.clock,
                .rate = request.header.rate,
                .rows = *rows,
                .values = values,
                .mapped = request.header.push_from};
  if (open.table->spec.rule != "add") {
    const std::uint64_t version = std::min(request.header.version, open.table->version);
    const auto missed = static_cast<std::int64_t>(open.table->version - version);
    open.staleness.add(0, missed, false);
    if (open.table->spec.divide_by_staleness)
      update.scale = 1.0 / static_cast<double>(std::max<std::int64_t>(1, missed));
  }
  if (apply_rule(options_.policy) != Apply::at_once) keep(update, message);
  const std::string why = take_update(open, std::move(update));
  answer(worker, request, &open, why.empty() ? Status::done : Status::refused, why);
}

// What an update needs must stay as it is until it is applied. A message that holds all of it moves in; otherwise it is
// copied, but for values in the memory of a worker that will not touch them before (bsp: it waits for the result).
void ServerShard::keep(Update& update, std::vector<std::byte>& message) {
  const auto inside = [&](const void* data) {
    return data >= message.data() && data < message.data() + message.size();
  };
  const bool keys_inside = update.rows.keys.empty() || inside(update.rows.keys.data());
  if (keys_inside && inside(update.values.data())) {
    update.message = std::move(message);
    return;
  }
  const bool waits = apply_rule(options_.policy) == Apply::when_all_have_clocked;
  const bool copies_values = inside(update.values.data()) || !waits;
  if (copies_values) update.mapped = {};
  append(update.message, update.rows.keys);
  const std::size_t key_bytes = update.message.size();
  if (copies_values) append(update.message, update.values);
  update.rows.keys = {reinterpret_cast<const std::uint64_t*>(update.message.data()), update.rows.keys.size()};
  if (copies_values)
    update.values = {reinterpret_cast<const float*>(update.message.data() + key_bytes), update.values.size()};
}

std::string ServerShard::take_update(OpenTable& open, Update update) {
  switch (apply_rule(options_.policy)) {
    case Apply::at_once: return apply(open, std::span(&update, 1), 1, {});
    case Apply::when_all_have_clocked:
      if (update.clock < clocks_.slowest()) return fmt::format("step {} is over for all workers", update.clock);
      open.gathered[update.clock].push_back(std::move(update));
      return {};
    case Apply::after_so_many: {
      std::vector<Update>& waiting = open.gathered[0];
      waiting.push_back(std::move(update));
      if (waiting.size() < static_cast<std::size_t>(options_.policy.number)) return {};
      const std::vector<Update> all = std::exchange(waiting, {});
      return apply(open, all, options_.policy.number, {});
    }
  }
  return {};
}

std::string ServerShard::apply(OpenTable& open, std::span<const Update> updates, int divide_by,
                               std::span<const ReadAlong> readers) {
  const std::string why = open.table->apply(updates, open.table->spec.rule == "add" ? 1 : divide_by, readers);
  if (!why.empty()) return why;
  open.table->version += updates.size();
  for (const Update& update : updates) {
    std::int64_t& applied = open.applied[static_cast<std::size_t>(update.worker)];
    applied = std::max(applied, update.clock + 1);
  }
  return {};
}

// ---- clocks

void ServerShard::clock(int worker, const TableRequest& request) {
  const bool rose = clocks_.advance(worker, request.header.clock);
  if (rose) settle();
}

void ServerShard::leave(int worker) {
  for (OpenTable& open : tables_) {
    for (auto& [step, updates] : open.gathered) own_values(worker, updates);
  }
  clocks_.leave(worker);
  settle();
}

// Who leaves does not keep its memory for those who have not come so far yet.
void ServerShard::own_values(int worker, std::span<Update> updates) {
  for (Update& update : updates) {
    if (update.worker != worker || update.mapped.region == 0 || !find_again(update)) continue;
    std::vector<float> values(update.values.begin(), update.values.end());
    update.mapped = {};
    update.owned = std::move(values);
    update.values = update.owned;
  }
}

// The values of an update that waited in a worker's memory: false if that was given back meanwhile.
bool ServerShard::find_again(Update& update) const {
  if (update.mapped.region == 0) return true;
  const auto values = find_mapped(update.worker, update.mapped, update.values.size());
  if (values) update.values = *values;
  return values.has_value();
}

bool ServerShard::needs(int worker) const {
  return broken_.empty() && clocks_.active(worker) && apply_rule(options_.policy) == Apply::when_all_have_clocked;
}

void ServerShard::lose(int worker, const std::string& how) {
  Worker& lost = workers_[static_cast<std::size_t>(worker)];
  if (std::exchange(lost.gone, true)) return;
  end_snapshots(worker);
  lost.held.clear();  // it was not answered, and nobody waits for the answer
  std::erase_if(parked_, [&](const Parked& parked) { return parked.worker == worker; });
  const bool waited_for = clocks_.active(worker) && apply_rule(options_.policy) == Apply::when_all_have_clocked;
  if (!waited_for) return leave(worker);
  break_off(how);
}

// A relay has lost a worker: for its policy and its own workers what lose() is for this one.
void ServerShard::lost(const TableRequest& request) {
  if (apply_rule(options_.policy) != Apply::when_all_have_clocked)
    throw Error(Code::invalid, "only where all wait for each other does a lost worker concern the servers");
  break_off(std::string(sentence_of(request)));
}

void ServerShard::break_off(const std::string& why) {
  if (broken_.empty()) broken_ = why;                     // the first is the reason; others go because of it
  for (OpenTable& open : tables_) open.gathered.clear();  // nobody will read it, and some of it lies in lost memory
  release_parked();
  release_held();
}

void ServerShard::settle() {
  for (OpenTable& open : tables_) {
    if (apply_rule(options_.policy) == Apply::when_all_have_clocked) apply_complete_steps(open);
    open.table->advance(clocks_.slowest());
  }
  release_parked();
  hand_over();
}

void ServerShard::apply_complete_steps(OpenTable& open) {
  while (!open.gathered.empty() && open.gathered.begin()->first < clocks_.slowest()) {
    std::vector<Update> updates = std::move(open.gathered.begin()->second);
    open.gathered.erase(open.gathered.begin());
    std::stable_sort(updates.begin(), updates.end(),
                     [](const Update& a, const Update& b) { return a.worker < b.worker; });
    for (Update& update : updates) {
      if (find_again(update)) continue;
      broken_ = fmt::format("worker {} has given back the memory of a push to table '{}' before it was applied",
                            update.worker, open.table->spec.name);
      return;
    }
    // A refusal can only be that of a budget, and that of the whole step: those who pushed have their answer already.
    std::vector<Parked> along;
    std::vector<ReadAlong> readers;
    if (open.gathered.empty() || open.gathered.begin()->first >= clocks_.slowest())
      take_readers_along(open, updates, along, readers);
    const std::string why =
        apply(open, updates, options_.place.leaves == 0 ? options_.place.workers : options_.place.leaves, readers);
    if (!why.empty() && broken_.empty()) broken_ = why;
    for (const Parked& reader : along)
      answer(reader.worker, parse_request(reader.message), &open, why.empty() ? Status::done : Status::refused, why);
  }
}

// Parked pulls into mapped memory that these updates, the last before the slowest clock, let go on. One that is bad in
// any way stays, and hears of it when its turn comes.
void ServerShard::take_readers_along(const OpenTable& open, std::span<const Update> updates, std::vector<Parked>& along,
                                     std::vector<ReadAlong>& readers) {
  for (Parked& parked : parked_) {
    const auto reader = reading_along(parked, open, updates);
    if (!reader) continue;
    readers.push_back(*reader);
    along.push_back(std::move(parked));
  }
  std::erase_if(parked_, [](const Parked& parked) { return parked.message.empty(); });
}

std::optional<ReadAlong> ServerShard::reading_along(const Parked& parked, const OpenTable& open,
                                                    std::span<const Update> updates) const {
  const RequestHeader header = header_of(parked.message);
  if (&tables_[header.table] != &open || header.rows != RowNames::range || header.pull_into.region == 0 ||
      header.required > clocks_.slowest())
    return std::nullopt;
  const RowsOf rows{.range = {header.first, header.first + header.count}};
  const std::size_t floats = open.table->floats_of(rows);
  if (!open.table->objection(rows, floats).empty() || !open.table->can_read_along(rows, updates)) return std::nullopt;
  const auto into = find_mapped(parked.worker, header.pull_into, floats);
  if (!into) return std::nullopt;
  return ReadAlong{.rows = rows, .into = *into};
}

void ServerShard::release_parked() {
  for (Parked& parked : std::exchange(parked_, {})) {
    const TableRequest request = parse_request(parked.message);
    answer_failures(parked.worker, request, [&] { answer_or_park(parked.worker, request, parked.message); });
  }
}

// ---- reads

// See Note [What a read contains].
std::int64_t ServerShard::contained_of(const OpenTable& open, int worker) const {
  if (!clocks_.active(worker)) return kEverything;
  switch (apply_rule(options_.policy)) {
    case Apply::at_once: return clocks_.at(worker);
    case Apply::when_all_have_clocked: return clocks_.slowest();
    case Apply::after_so_many: return open.applied[static_cast<std::size_t>(worker)];
  }
  return 0;
}

bool ServerShard::contains(const OpenTable& open, std::int64_t required) const {
  for (int worker = 0; worker < clocks_.workers(); ++worker) {
    if (contained_of(open, worker) < required) return false;
  }
  return true;
}

void ServerShard::pull(int worker, const TableRequest& request, std::vector<std::byte>& message) {
  table_of(request);
  lists_of(worker).remember(request);  // now, not when it is answered: the next request may count on it
  answer_or_park(worker, request, message);
}

void ServerShard::answer_or_park(int worker, const TableRequest& request, std::vector<std::byte>& message) {
  OpenTable& open = table_of(request);
  if (!broken_.empty()) return answer(worker, request, &open, Status::worker_lost, broken_);
  if (!contains(open, request.header.required)) {
    parked_.push_back({worker, std::move(message)});
    return;
  }
  if (request.header.verb == Verb::snapshot) return begin_snapshot(worker, request, open);
  answer_pull(worker, request, open);
}

void ServerShard::answer_pull(int worker, const TableRequest& request, OpenTable& open) {
  const auto rows = lists_of(worker).rows_of(request);
  if (!rows) return answer(worker, request, &open, Status::forgotten);
  const std::size_t floats = open.table->floats_of(*rows);
  if (const std::string why = objection_to(*open.table, *rows, floats, request.header.verb); !why.empty())
    return answer(worker, request, &open, Status::refused, why);
  if (open.buckets != nullptr) open.buckets->count(rows->keys);
  if (request.header.pull_into.region != 0) {
    open.table->read(*rows, worker, mapped_values(worker, request.header.pull_into, floats));
    return answer(worker, request, &open, Status::done);
  }
  const std::span<float> into = answer_with_values(worker, request, open, floats);
  open.table->read(*rows, worker, into);
}

// Header and clocks are there; the place of the values, if it has any, follows them.
std::vector<std::byte>& ServerShard::begin_answer(int worker, const TableRequest& request, const OpenTable* open,
                                                  ReplyHeader header) {
  header.table = request.header.table;
  header.heard = workers_[static_cast<std::size_t>(worker)].last_sequence;
  if (open != nullptr) {
    header.version = open->table->version;
    header.workers = static_cast<std::uint32_t>(workers_.size());
  }
  const std::size_t clocks = sizeof header;
  const std::size_t values = clocks + header.workers * sizeof(std::int64_t);
  auto message = buffers_.take(values + header.values * sizeof(float));
  std::memcpy(message.data(), &header, sizeof header);
  for (std::uint32_t w = 0; w < header.workers; ++w) {
    const std::int64_t contained = contained_of(*open, static_cast<int>(w));
    std::memcpy(message.data() + clocks + w * sizeof contained, &contained, sizeof contained);
  }
  answers_.push_back({.worker = worker, .sequence = request.header.sequence, .message = std::move(message)});
  return answers_.back().message;
}

void ServerShard::answer(int worker, const TableRequest& request, const OpenTable* open, Status status,
                         std::string_view sentence) {
  append(begin_answer(worker, request, open, {.status = status}), std::span<const char>(sentence));
}

// The place in the answer where the values go.
std::span<float> ServerShard::answer_with_values(int worker, const TableRequest& request, const OpenTable& open,
                                                 std::size_t floats) {
  std::vector<std::byte>& message = begin_answer(worker, request, &open, {.values = floats});
  return {reinterpret_cast<float*>(message.data() + message.size()) - floats, floats};
}

// Of a table: how many updates those that were pushed had missed.
void ServerShard::tell_statistics(int worker, const TableRequest& request) {
  const OpenTable& open = table_of(request);
  std::vector<std::byte>& message = begin_answer(worker, request, &open, {});
  append(message, std::span<const double>(open.staleness.sums()));
  append(message, std::span<const double>(open.staleness.maxima()));
}

}  // namespace paceline
