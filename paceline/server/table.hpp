// Table: parameters by key, spread over servers, as one worker sees them. Made by Session::open.
//
// Two ways to use it, which may be mixed:
// - get, inc (and Session::clock): a get waits until it contains what the policy promises, and contains this worker's
// own
//   incs; where the policy allows it, a dense table is read from a copy that is fresh enough, without a message.
// - push, pull, push_pull: sent at once, waited for with the TablePending. A pull gives what is there when it arrives.
//
// Keys need not be sorted or unique; of a key that comes twice in one push the values are added up. Rows of one request
// that lie on one server are read and changed together: nobody sees half of them. get_together does so over all
// servers. Memory given to push and pull must stay as it is until wait() has returned. inc copies what is given to it.
// Memory from Endpoint::allocate is quicker: servers of the same host read and write it in place (of keys, where there
// is one server). Then that of an inc must stay until Session::flush() (bsp copies it), and under bsp that of a push
// until a read of the next step has returned: the server takes it when all have ended theirs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "paceline/server/placement.hpp"
#include "paceline/server/session.hpp"

namespace paceline {

class TableSnapshot;
struct TablePiece;

// A request under way to one server or several. Move-only. Who drops it does not want to know how it ended; a pull then
// writes nothing more, except into memory from Endpoint::allocate.
class TablePending {
 public:
  TablePending();
  TablePending(TablePending&&) noexcept;
  TablePending& operator=(TablePending&&) noexcept;
  ~TablePending();

  // Moves messages, then says whether the request has ended.
  bool test();
  // Throws the Error of a request that failed: refused by a server, or the server or a worker it needs is gone.
  void wait();

 private:
  friend class Table;
  friend class TableSnapshot;
  friend class Session;
  friend class RelayShard;
  struct State;
  std::unique_ptr<State> release();
  explicit TablePending(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class Table {
 public:
  using Keys = std::span<const std::uint64_t>;
  struct State;

  const TableSpec& spec() const;

  void get(Keys keys, std::span<float> into);
  void get(RowRange rows, std::span<float> into);
  // What servers have at this moment; later gets are no older.
  void get_latest(RowRange rows, std::span<float> into);
  // As get, but all rows as they were at one moment on all servers. Throws Error{timeout} if updates come so often that
  // no such moment was found.
  void get_together(Keys keys, std::span<float> into);
  // For tables whose rule is add.
  void inc(Keys keys, std::span<const float> changes);
  void inc(RowRange rows, std::span<const float> changes);

  // Sets rows to values, whatever the rule: where training begins.
  TablePending set(Keys keys, std::span<const float> values);
  TablePending set(RowRange rows, std::span<const float> values);
  // `rate`: the learning rate of the rule; 0: its own.
  TablePending push(Keys keys, std::span<const float> values, double rate = 0);
  TablePending push(RowRange rows, std::span<const float> values, double rate = 0);
  TablePending pull(Keys keys, std::span<float> into);
  TablePending pull(RowRange rows, std::span<float> into);
  // As a worker with this clock may read it: sent before Session::clock(), it is answered as soon as all have come so
  // far. Counts as a read of that clock; of own incs it contains those of earlier steps.
  TablePending pull_at(RowRange rows, std::span<float> into, std::int64_t clock);
  TablePending pull_at(Keys keys, std::span<float> into, std::int64_t clock);
  // The values as they are after the push.
  TablePending push_pull(Keys keys, std::span<const float> values, std::span<float> into, double rate = 0);
  TablePending push_pull(RowRange rows, std::span<const float> values, std::span<float> into, double rate = 0);

  // All rows with what the rule remembers of them, as they are now, while workers push on: table_snapshot.hpp. As get,
  // it waits until it contains what the policy promises.
  TableSnapshot snapshot();
  // Sets rows as a snapshot had them, of a table with the same kind of rule, on however many servers: where training
  // goes on. Memory of the piece is not needed any more.
  TablePending restore(const TablePiece& piece);

  // How many updates those that servers have had missed; from all servers, of all workers.
  Staleness updates_missed();

 private:
  friend class Session;
  Table(Session::State& session, State& state) : session_(&session), state_(&state) {}

  Session::State* session_;
  State* state_;
};

}  // namespace paceline
