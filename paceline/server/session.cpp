#include "paceline/server/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/server/session_state.hpp"

namespace paceline {
namespace {

constexpr std::size_t kShortList = 16;         // of keys: not worth a hash
constexpr std::size_t kMappedFloats = 16'384;  // fewer are sent in the message

}  // namespace

int server_of(const Table::State& table, std::uint64_t row, int servers) {
  const TableSpec& spec = table.spec;
  if (spec.kind == TableSpec::Kind::dense) return server_of_row(spec.rows, spec.width, servers, row);
  return table.owners.empty() ? server_of_key(row, servers) : table.owners[bucket_of_key(row)];
}

Session::State::State(Endpoint& door, SessionOptions given)
    : endpoint(door),
      options(std::move(given)),
      links(options.servers.size()),
      drops_(options.drop_seed, static_cast<std::uint64_t>(options.worker)) {
  CHECK(!options.servers.empty(), "a session has servers");
}

// ---- requests

void Session::State::open(Table::State& table) {
  auto opening = request(table);
  const std::string spec = encode(table.spec);
  for (std::size_t server = 0; server < links.size(); ++server) {
    ask(*opening, static_cast<int>(server), header_of(Verb::open, 0, 0), spec);
  }
  wait(*opening);
  // Who opens a table late finds it where it is by now.
  if (table.spec.balance_every != 0) share_load_anew(table, now - now % table.spec.balance_every);
}

std::unique_ptr<TablePending::State> Session::State::request(Table::State& table) {
  auto request = std::make_unique<TablePending::State>();
  request->session = this;
  request->table = &table;
  return request;
}

RequestHeader Session::State::header_of(Verb verb, double rate, std::int64_t required) const {
  return {.verb = verb,
          .worker = static_cast<std::uint32_t>(options.worker),
          .clock = now,
          .required = required,
          .rate = rate};
}

TableFlight& Session::State::ask(TablePending::State& request, int server, const RequestHeader& header,
                                 std::string note) {
  auto& flight = *request.flights.emplace_back(std::make_unique<TableFlight>());
  flight.server = server;
  flight.header = header;
  flight.note = std::move(note);
  send(*request.table, flight);
  return flight;
}

// Where memory lies that this server can map.
bool Session::State::mapped(int server, std::span<const float> memory, MappedValues& where) const {
  const auto& facts = endpoint.facts();
  const Rank rank = options.servers[static_cast<std::size_t>(server)];
  const auto host_of = [&](Rank r) { return facts.hosts[static_cast<std::size_t>(r)]; };
  if (!facts.mapped_memory || memory.size() < kMappedFloats || host_of(rank) != host_of(endpoint.rank())) return false;
  const auto location = endpoint.locate(memory.data(), memory.size_bytes());
  if (!location) return false;
  where = {location->region, location->offset};
  return true;
}

void Session::State::ask_range(TablePending::State& request, Verb verb, RowRange rows, std::span<const float> values,
                               std::span<float> into, double rate, std::int64_t required) {
  const TableSpec& spec = request.table->spec;
  const int servers = static_cast<int>(options.servers.size());
  for (int server = 0; server < servers; ++server) {
    const RowRange part = overlap(rows, range_of_server(spec.rows, spec.width, servers, server));
    if (part.size() == 0 && rows.size() > 0) continue;
    if (is_dropped(verb)) continue;
    auto& flight = *request.flights.emplace_back(std::make_unique<TableFlight>());
    flight.server = server;
    flight.header = header_of(verb, rate, required);
    flight.header.rows = RowNames::range;
    flight.header.first = part.first;
    flight.header.count = part.size();
    const std::size_t first = (part.first - rows.first) * spec.width;
    const std::size_t floats = part.size() * spec.width;
    if (verb == Verb::pull) {
      flight.into = into.subspan(first, floats);
      if (mapped(server, flight.into, flight.header.pull_into)) endpoint.count_direct(floats * sizeof(float));
    } else {
      flight.pushed = values.subspan(first, floats);
      if (!request.copies && mapped(server, flight.pushed, flight.header.push_from)) {
        flight.pushed = {};
        endpoint.count_direct(floats * sizeof(float));
      }
    }
    (verb == Verb::pull ? counters.bytes_pulled : counters.bytes_pushed) += floats * sizeof(float);
    send(*request.table, flight);
    if (rows.size() == 0) return;  // one server says what it thinks of it
  }
}

void Session::State::ask_keys(TablePending::State& request, Verb verb, Table::Keys keys, std::span<const float> values,
                              std::span<float> into, double rate, std::int64_t required) {
  const std::size_t width = request.table->spec.width;
  const int servers = static_cast<int>(options.servers.size());
  const std::size_t base = request.flights.size();
  for (int server = 0; server < servers; ++server) {
    auto& flight = *request.flights.emplace_back(std::make_unique<TableFlight>());
    flight.server = server;
    flight.header = header_of(verb, rate, required);
    flight.into = into;
  }
  if (servers == 1) {
    TableFlight& flight = *request.flights[base];
    flight.listed = keys;
    flight.pushed = values;
    if (verb == Verb::pull) mapped(0, into, flight.header.pull_into);
    if (verb != Verb::pull && !request.copies && mapped(0, values, flight.header.push_from)) flight.pushed = {};
  } else {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto& flight = *request.flights[base + static_cast<std::size_t>(server_of(*request.table, keys[i], servers))];
      flight.keys.push_back(keys[i]);
      flight.positions.push_back(static_cast<std::uint32_t>(i));
    }
    request.gathered.reserve(values.size());
    for (std::size_t f = base; f < request.flights.size(); ++f) {
      TableFlight& flight = *request.flights[f];
      flight.listed = flight.keys;
      if (verb == Verb::pull) continue;
      const std::size_t begin = request.gathered.size();
      for (const std::uint32_t i : flight.positions)
        request.gathered.insert(request.gathered.end(), values.begin() + static_cast<std::ptrdiff_t>(i * width),
                                values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
      flight.pushed = {request.gathered.data() + begin, request.gathered.size() - begin};
    }
  }
  std::erase_if(request.flights, [&](const auto& flight) {
    return flight->header.sequence == 0 && ((servers > 1 && flight->listed.empty()) || is_dropped(verb));
  });
  for (auto& flight : request.flights) {
    if (flight->header.sequence != 0) continue;  // of an earlier call
    name_keys(*flight, request.keys_come_again);
    const std::size_t bytes = flight->listed.size() * width * sizeof(float);
    (verb == Verb::pull ? counters.bytes_pulled : counters.bytes_pushed) += bytes;
    send(*request.table, *flight);
  }
}

bool Session::State::is_dropped(Verb verb) {
  const bool dropped = options.drop_pushes > 0 && verb == Verb::push && drops_.uniform() < options.drop_pushes;
  counters.dropped += dropped ? 1 : 0;
  return dropped;
}

// A list that the server has had is sent as its hash.
void Session::State::name_keys(TableFlight& flight, bool come_again) {
  flight.header.rows = RowNames::listed;
  flight.header.count = flight.listed.size();
  if (!options.remember_keys || !come_again || flight.listed.size() < kShortList) return;
  flight.header.hash = hash_of(flight.listed);
  auto& remembered = links[static_cast<std::size_t>(flight.server)].remembered;
  if (std::find(remembered.begin(), remembered.end(), flight.header.hash) != remembered.end()) {
    flight.header.rows = RowNames::remembered;
    return;
  }
  if (remembered.size() == kRememberedLists) remembered.pop_back();
  remembered.push_front(flight.header.hash);
}

void Session::State::send(Table::State& table, TableFlight& flight) {
  Link& link = links[static_cast<std::size_t>(flight.server)];
  const auto& on_server = table.servers[static_cast<std::size_t>(flight.server)];
  flight.header.table = on_server.number;
  flight.header.version = on_server.version;
  flight.header.sequence = ++link.sequence;
  const std::span<const std::uint64_t> keys =
      flight.header.rows == RowNames::listed ? flight.listed : std::span<const std::uint64_t>();
  auto message =
      buffers.take(sizeof flight.header + keys.size_bytes() + flight.pushed.size_bytes() + flight.note.size());
  std::byte* at = message.data();
  for (const auto part : {std::as_bytes(std::span(&flight.header, 1)), std::as_bytes(keys),
                          std::as_bytes(flight.pushed), std::as_bytes(std::span(flight.note))}) {
    at = std::copy(part.begin(), part.end(), at);
  }
  flight.send = {};
  flight.message = std::move(message);  // not before: after `own` the values lie in the one before
  counters.bytes_pushed += keys.size_bytes();
  if (flight.header.verb == Verb::pull && flight.header.pull_into.region == 0)
    flight.reply = buffers.take(flight.listed.empty() ? flight.into.size_bytes()
                                                      : flight.listed.size() * table.spec.width * sizeof(float));
  const Rank server = options.servers[static_cast<std::size_t>(flight.server)];
  flight.receive = endpoint.receive(server, {kServerContext, flight.header.sequence}, flight.reply);
  flight.send = endpoint.send(server, kRequestTag, flight.message);
}

bool Session::State::advance(TablePending::State& request) {
  bool all = true;
  for (auto& flight : request.flights) {
    if (flight->ended) continue;
    if (flight->receive.done()) take_reply(*request.table, *flight);
    all = all && flight->ended;
  }
  return all;
}

void Session::State::wait(TablePending::State& request) {
  while (!advance(request)) {
    if (!endpoint.progress()) endpoint.idle(kNever);
  }
}

void Session::State::wait_timed(TablePending::State& request) {
  const TimePoint start = endpoint.clock().now();
  wait(request);
  counters.waited += endpoint.clock().now() - start;
}

void Session::State::take_reply(Table::State& table, TableFlight& flight) {
  flight.receive.wait();  // throws if the server is gone
  const TableReply reply = parse_reply(flight.reply);
  const Rank server = options.servers[static_cast<std::size_t>(flight.server)];
  switch (reply.header.status) {
    case Status::done: break;
    case Status::forgotten: flight.header.rows = RowNames::listed; return send(table, flight);
    case Status::refused:
      throw Error(Code::invalid, server,
                  fmt::format("{} of table '{}' refused by server {}: {}", name(flight.header.verb), table.spec.name,
                              flight.server, reply.sentence));
    case Status::worker_lost:
      // A worker may have gone because a server died, which is the reason to tell; a look finds what the kernel knows.
      while (endpoint.progress()) {
      }
      endpoint.idle(endpoint.clock().now());
      endpoint.progress();
      for (const Rank other : options.servers) {
        if (endpoint.lost(other)) throw endpoint.departure(other);
      }
      throw Error(
          Code::peer_lost, server,
          fmt::format("{} of table '{}' cannot be: {}", name(flight.header.verb), table.spec.name, reply.sentence));
  }
  auto& on_server = table.servers[static_cast<std::size_t>(flight.server)];
  if (flight.header.verb == Verb::open) on_server.number = reply.header.table;
  on_server.version = reply.header.version;
  flight.ended = true;
  if (flight.send.done()) buffers.give_back(std::move(flight.message));
  if (flight.header.verb != Verb::pull) return;
  flight.contained.assign(reply.contained.begin(), reply.contained.end());
  flight.heard = reply.header.heard;
  if (flight.header.pull_into.region != 0) return;
  const std::size_t width = table.spec.width;
  const std::size_t expected = flight.positions.empty() ? flight.into.size() : flight.positions.size() * width;
  if (reply.values.size() != expected)
    throw Error(
        Code::refused, server,
        fmt::format("server {} answered with {} floats instead of {}", flight.server, reply.values.size(), expected));
  if (flight.positions.empty()) {
    std::copy(reply.values.begin(), reply.values.end(), flight.into.begin());
  } else {
    for (std::size_t i = 0; i < flight.positions.size(); ++i)
      std::copy_n(reply.values.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                  flight.into.begin() + static_cast<std::ptrdiff_t>(flight.positions[i] * width));
  }
  buffers.give_back(std::move(flight.reply));
}

// What a request that may have to be sent again needs when its caller's memory is gone.
void Session::State::own(TableFlight& flight) {
  if (flight.header.rows != RowNames::remembered || !flight.positions.empty()) return;
  flight.keys.assign(flight.listed.begin(), flight.listed.end());
  flight.listed = flight.keys;
  flight.pushed = {reinterpret_cast<const float*>(flight.message.data() + sizeof flight.header), flight.pushed.size()};
}

void Session::State::let_go(std::unique_ptr<TablePending::State> request) {
  for (auto& flight : request->flights) own(*flight);
  let_go_.push_back(TablePending(std::move(request)));
  reap();
}

// Throws what was refused among the requests that nobody waits for.
void Session::State::reap() {
  for (auto it = let_go_.begin(); it != let_go_.end();) {
    auto here = it++;
    if (!here->test()) continue;
    TablePending ended = std::move(*here);
    let_go_.erase(here);
    ended.wait();
  }
  std::erase_if(notes_, [](const TableFlight& note) { return note.send.done(); });
}

// ---- clocks

void Session::State::send_to_all(Verb verb, std::string_view sentence) {
  for (std::size_t server = 0; server < links.size(); ++server) {
    const Rank rank = options.servers[server];
    TableFlight& note = notes_.emplace_back();
    note.header = header_of(verb, 0, 0);
    note.header.sequence = ++links[server].sequence;
    append_header(note.message, note.header);
    append(note.message, std::span<const char>(sentence));
    if (verb == Verb::leave) note.receive = endpoint.receive(rank, {kServerContext, note.header.sequence}, note.reply);
    note.send = endpoint.send(rank, kRequestTag, note.message);
  }
}

void Session::State::clock() {
  reap();
  for (Table::State& table : tables) {
    if ((now + 1) % table.filter.flush_every == 0) send_kept(table);
  }
  ++now;
  for (Table::State& table : tables) table.own_rows.clear();  // applied before the next read
  send_to_all(Verb::clock);
  for (Table::State& table : tables) {
    if (table.spec.balance_every != 0 && now % table.spec.balance_every == 0) share_load_anew(table, now);
  }
}

void Session::State::flush() {
  for (Table::State& table : tables) send_kept(table);
  while (!let_go_.empty()) {
    TablePending first = std::move(let_go_.front());
    let_go_.pop_front();
    first.wait();
  }
}

void Session::State::leave() {
  flush();
  send_to_all(Verb::leave);
  for (TableFlight& note : notes_) {
    note.send.wait();
    note.receive.wait();  // then servers have what they need of this worker's memory
  }
  notes_.clear();
}

// ---- what reads contain

std::vector<std::int64_t> Session::State::contained_in(const TablePending::State& request) const {
  std::vector<std::int64_t> contained(static_cast<std::size_t>(options.workers), kEverything);
  for (const auto& flight : request.flights) {
    if (flight->contained.size() > contained.size()) contained.resize(flight->contained.size(), kEverything);
    for (std::size_t w = 0; w < flight->contained.size(); ++w)
      contained[w] = std::min(contained[w], flight->contained[w]);
  }
  return contained;
}

std::vector<std::uint64_t> Session::State::versions_of(const Table::State& table) const {
  std::vector<std::uint64_t> versions;
  for (const auto& server : table.servers) versions.push_back(server.version);
  return versions;
}

std::int64_t Session::State::least(std::span<const std::int64_t> contained) const {
  std::int64_t least = now;  // those who have left hold nobody up, and a worker's own updates are always there
  for (const std::int64_t clock : contained) least = std::min(least, clock);
  return least;
}

void Session::State::note_read(std::span<const std::int64_t> contained, std::int64_t required) {
  std::vector<std::int64_t> others(contained.begin(), contained.end());
  others[static_cast<std::size_t>(options.worker)] = now;
  const std::int64_t in_clocks = now - least(others);
  std::int64_t missed = 0;  // by one update of each worker in each clock
  for (const std::int64_t clock : others) missed += std::max<std::int64_t>(0, now - clock);
  staleness.add(in_clocks, missed, now - in_clocks < required);
}

Staleness Session::State::updates_missed(Table::State& table) {
  auto asking = request(table);
  for (std::size_t server = 0; server < links.size(); ++server) {
    ask(*asking, static_cast<int>(server), header_of(Verb::statistics, 0, 0));
  }
  wait(*asking);
  Staleness all;
  for (const auto& flight : asking->flights) {
    const std::string_view bytes = parse_reply(flight->reply).sentence;
    std::vector<double> numbers(bytes.size() / sizeof(double));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
    const std::span<const double> all_numbers(numbers);
    const std::size_t sums = all.sums().size();
    if (numbers.size() != sums + all.maxima().size()) throw Error(Code::refused, "a server's statistics are malformed");
    all.merge(Staleness::from(all_numbers.first(sums), all_numbers.subspan(sums)));
  }
  return all;
}

// ---- the public face

Session::Session(Endpoint& endpoint, SessionOptions options)
    : state_(std::make_unique<State>(endpoint, std::move(options))) {}
Session::~Session() = default;

Table Session::open(const TableSpec& spec, const FilterOptions& filter) {
  check(spec);
  check(filter, spec, state_->options.policy);
  check_sharing(spec, state_->options.policy);
  Table::State& table = state_->tables.emplace_back();
  table.spec = spec;
  table.filter = filter;
  table.drops_zeros = filter.zeros && may_drop_zeros(spec, state_->options.policy);
  table.servers.resize(state_->options.servers.size());
  state_->open(table);
  return {*state_, table};
}

std::int64_t Session::now() const { return state_->now; }
void Session::clock() { state_->clock(); }
void Session::flush() { state_->flush(); }
void Session::leave() { state_->leave(); }
void Session::set_bound(int clocks) {
  Policy& policy = state_->options.policy;
  CHECK(clocks >= 0 && (policy.kind == Policy::Kind::ssp || policy.kind == Policy::Kind::essp),
        "a policy with a bound gets another");
  policy.number = clocks;
}

const SessionOptions& Session::options() const { return state_->options; }
const SessionCounters& Session::counters() const { return state_->counters; }
const Staleness& Session::staleness() const { return state_->staleness; }

}  // namespace paceline
