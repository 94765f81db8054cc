// Session: a worker's door to the tables of the servers. Counts the worker's clock and keeps what it must know of each
// server.
//
//   Session session(endpoint, {.servers = {4, 5}, .worker = rank, .workers = 4, .policy = parse_policy("ssp:3")});
//   Table weights = session.open({.name = "weights", .width = 64});
//   for (;;) {
//     weights.get(keys, rows);         // waits until the policy's promise is kept
//     weights.inc(keys, changes);      // travels while the worker goes on; its own reads see it at once
//     session.clock();                 // this step is over
//   }
//   session.leave();
//
// One thread owns a Session with its Tables and TablePendings; the Endpoint outlives them. Messages move while that
// thread is inside a call of them or of the Endpoint.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/server/protocol.hpp"
#include "paceline/server/table_spec.hpp"
#include "paceline/server/update_filter.hpp"
#include "paceline/sync/policy.hpp"
#include "paceline/sync/staleness.hpp"

namespace paceline {

class Table;

struct SessionOptions {
  std::vector<Rank> servers = {};
  int worker = 0;
  int workers = 1;
  Policy policy = {};
  bool remember_keys = true;  // a list of keys that was sent before is sent as its hash
  // An experiment: this share of updates is lost on the way, each to each server for itself, by the seed. Clocks
  // travel.
  double drop_pushes = 0;
  std::uint64_t drop_seed = 1;
};

struct SessionCounters {
  std::uint64_t bytes_pushed = 0;  // keys and values, also those that servers read from mapped memory
  std::uint64_t bytes_pulled = 0;
  std::uint64_t cached_reads = 0;   // that needed no message
  std::uint64_t unsent_rows = 0;    // of incs: zeros, and what a filter kept back
  std::uint64_t kept_rows = 0;      // of incs, that were kept back for being small; one as often as it was
  std::uint64_t bytes_saved = 0;    // by not sending them, with the keys of those that were sent deducted
  std::uint64_t dropped = 0;        // messages with updates, on purpose
  std::uint64_t moved_buckets = 0;  // of sparse tables, to another server
  Duration waited{};                // in get()
};

class Session {
 public:
  Session(Endpoint& endpoint, SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The table of that name on all servers, made if it is not there. Throws Error{invalid} if the spec is refused. The
  // Table must not outlive the Session. The filter is this worker's own.
  Table open(const TableSpec& spec, const FilterOptions& filter = {});

  // Steps that this worker has ended.
  std::int64_t now() const;
  // Ends the step: its updates are complete.
  void clock();
  // Returns when servers have taken all incs, also what a filter had kept back. Their memory may be used again then.
  void flush();
  // This worker makes no more updates and holds up nobody any more. Reads go on to work.
  void leave();

  // Of ssp and essp: from the next read on. Each worker may have its own.
  void set_bound(int clocks);

  const SessionOptions& options() const;
  const SessionCounters& counters() const;
  // Of all reads so far, in clocks.
  const Staleness& staleness() const;

  class State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace paceline
