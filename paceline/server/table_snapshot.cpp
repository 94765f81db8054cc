#include "paceline/server/table_snapshot.hpp"

#include <algorithm>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/server/session_state.hpp"

namespace paceline {
namespace {

// What a server has of buckets that it has given away is not the table's any more.
TablePiece only_of(TablePiece piece, int server, const BucketOwners& owners) {
  if (owners.empty() || piece.rows.keys.empty()) return piece;
  TablePiece own;
  for (std::size_t row = 0; row < piece.rows.keys.size(); ++row) {
    if (owners[bucket_of_key(piece.rows.keys[row])] == server)
      append_rows(piece.rows, {row, row + 1}, piece.size(), own.rows);
  }
  return own;
}

}  // namespace

struct TableSnapshot::State {
  Session::State* session = nullptr;
  Table::State* table = nullptr;
  BucketOwners owners = {};  // as they were when it began
  std::vector<std::int64_t> contained = {};
  struct OnServer {
    std::uint64_t begun_by = 0;  // the request; 0: it has not begun, or all has come
    // The piece that is on its way, so that it travels while others are looked at.
    std::unique_ptr<TablePending::State> coming = {};
  };
  std::vector<OnServer> servers = {};

  std::unique_ptr<TablePending::State> ask(std::size_t server, Verb verb, std::int64_t required = 0) {
    auto asking = session->request(*table);
    RequestHeader header = session->header_of(verb, 0, required);
    header.first = servers[server].begun_by;
    const TableFlight& flight = session->ask(*asking, static_cast<int>(server), header);
    if (verb == Verb::snapshot) servers[server].begun_by = flight.header.sequence;
    return asking;
  }

  void begin();
  TablePiece take_piece(std::size_t server);
  void end();
};

void TableSnapshot::State::begin() {
  const std::int64_t required = must_contain(session->options.policy, session->now);
  servers.resize(session->links.size());
  for (std::size_t server = 0; server < servers.size(); ++server)
    servers[server].coming = ask(server, Verb::snapshot, required);
  for (std::size_t server = 0; server < servers.size(); ++server) {
    const auto begun = std::move(servers[server].coming);
    const std::uint64_t number = std::exchange(servers[server].begun_by, 0);
    session->wait(*begun);
    servers[server].begun_by = number;  // not of a server that has refused
    servers[server].coming = ask(server, Verb::piece);
    const auto has = parse_reply(begun->flights.front()->reply).contained;
    contained.resize(std::max(contained.size(), has.size()), kEverything);
    for (std::size_t worker = 0; worker < has.size(); ++worker)
      contained[worker] = std::min(contained[worker], has[worker]);
  }
}

TablePiece TableSnapshot::State::take_piece(std::size_t server) {
  OnServer& from = servers[server];
  const auto came = std::move(from.coming);
  session->wait(*came);
  TablePiece piece = decode_table_piece(parse_reply(came->flights.front()->reply).sentence);
  if (const std::string why = objection(table->spec, piece); !why.empty()) throw Error(Code::refused, why);
  if (piece.size() > 0) {
    from.coming = ask(server, Verb::piece);
  } else {
    from.begun_by = 0;
  }
  return piece;
}

// Answers that nobody takes would stay in the Endpoint. A server that is gone has ended it, and is told of by whatever
// is asked of it next.
void TableSnapshot::State::end() {
  for (std::size_t server = 0; server < servers.size(); ++server) {
    if (servers[server].begun_by == 0) continue;
    try {
      if (servers[server].coming != nullptr) session->let_go(std::move(servers[server].coming));
      session->let_go(ask(server, Verb::end_snapshot));
    } catch (const Error&) {
    }
  }
}

TableSnapshot::TableSnapshot(std::unique_ptr<State> state) : state_(std::move(state)) {}
TableSnapshot::TableSnapshot(TableSnapshot&&) noexcept = default;

TableSnapshot::~TableSnapshot() {
  if (state_ != nullptr) state_->end();
}

std::optional<TablePiece> TableSnapshot::next() {
  for (std::size_t server = 0; server < state_->servers.size(); ++server) {
    while (state_->servers[server].begun_by != 0) {
      TablePiece piece = only_of(state_->take_piece(server), static_cast<int>(server), state_->owners);
      if (piece.size() > 0) return piece;
    }
  }
  return std::nullopt;
}

const std::vector<std::int64_t>& TableSnapshot::contained() const { return state_->contained; }

TableSnapshot Table::snapshot() {
  session_->reap();
  auto state = std::make_unique<TableSnapshot::State>();
  state->session = session_;
  state->table = state_;
  state->owners = state_->owners;
  TableSnapshot snapshot(std::move(state));  // ends, also where a server refuses to begin
  snapshot.state_->begin();
  return snapshot;
}

TablePending Table::restore(const TablePiece& piece) {
  if (const std::string why = objection(spec(), piece); !why.empty()) throw Error(Code::invalid, why);
  const int servers = static_cast<int>(session_->links.size());
  std::vector<TablePiece> parts(static_cast<std::size_t>(servers));
  if (spec().kind == TableSpec::Kind::dense) {
    for (int server = 0; server < servers; ++server) {
      const RowRange rows = overlap(piece.range, range_of_server(spec().rows, spec().width, servers, server));
      if (rows.size() > 0) parts[static_cast<std::size_t>(server)] = part_of(piece, rows);
    }
  } else {
    for (std::size_t row = 0; row < piece.rows.keys.size(); ++row)
      append_rows(piece.rows, {row, row + 1}, piece.size(),
                  parts[static_cast<std::size_t>(server_of(*state_, piece.rows.keys[row], servers))].rows);
  }
  auto request = session_->request(*state_);
  for (int server = 0; server < servers; ++server) {
    const TablePiece& part = parts[static_cast<std::size_t>(server)];
    if (part.size() > 0) session_->ask(*request, server, session_->header_of(Verb::restore, 0, 0), encode(part));
  }
  return TablePending(std::move(request));
}

}  // namespace paceline
