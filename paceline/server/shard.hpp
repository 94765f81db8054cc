// ServerShard: what one server does with the requests of workers. A state machine: a request goes in, answers come out,
// now or with a later request. No waiting, no time, no I/O.
//
//   ServerShard shard({.place = {0, 2, 4}, .policy = parse_policy("ssp:3")}, map);
//   shard.handle(worker, std::move(message));
//   for (ServerShard::Answer& answer : shard.take_answers()) send(answer.worker, answer.sequence, answer.message);
//
// Note [What a read contains]. A worker's pushes and clocks come over one ordered link, so when its clock is c, all its
// updates of steps before c are here. They are in the table too, or, with bsp, will be when all workers' are: then
// those of step c are added in worker order and applied once, which makes the bits independent of who came first and of
// the number of servers. A pull says up to which step it must contain everybody's updates and is parked until that is
// so; the policy that follows from is the worker's business. Softsync applies when K updates are there, of whomever.
//
// Note [Snapshots]. A snapshot is begun as a pull is answered: at once, or when the table contains what it must. Under
// bsp it has whole steps, since that is all a table ever has. From then on blocks of rows that change are copied first
// (dense_rows.hpp, sparse_rows.hpp), so that pushes go on while its worker reads it piece by piece. It ends when it has
// been read, when its worker says so, and with its worker. A restore is to a piece what a put is to values.
//
// Bad requests are answered with a sentence and change nothing. A worker that dies counts as one that has left, except
// where the policy waits for it in each step (bsp): then all that wait, and all later pulls, are told who died.
// One thread owns a ServerShard.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/server/bucket_share.hpp"
#include "paceline/server/key_lists.hpp"
#include "paceline/server/message_buffers.hpp"
#include "paceline/server/protocol.hpp"
#include "paceline/server/shard_table.hpp"
#include "paceline/sync/clocks.hpp"
#include "paceline/sync/policy.hpp"
#include "paceline/sync/staleness.hpp"

namespace paceline {

struct ServerShardOptions {
  ShardPlace place = {};
  Policy policy = {};
  bool reaches_servers = false;  // what is handed over gets there
};

class ServerShard {
 public:
  // A worker's memory as the server sees it; nullopt where it cannot be mapped.
  using Map = std::function<std::optional<std::span<std::byte>>(int worker, std::uint64_t region)>;
  struct Answer {
    int worker = 0;
    std::uint64_t sequence = 0;
    std::vector<std::byte> message;
  };
  struct ToServer {
    int server = 0;
    std::vector<std::byte> message;
  };

  ServerShard(ServerShardOptions options, Map map);
  ~ServerShard();

  // Takes the message only where it is kept for later; otherwise the caller may use its memory for the next.
  void handle(int worker, std::vector<std::byte>&& message);
  // Its end would be an Error for the others.
  bool needs(int worker) const;
  // A worker's end, good or bad; `how` is the sentence for those who needed it still.
  void lose(int worker, const std::string& how);
  // What another server has handed over, and what this one hands to others.
  void take_rows(int server, std::span<const std::byte> message);
  std::vector<ToServer> take_handovers() { return std::exchange(handovers_, {}); }
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  // Of an answer that has been sent.
  void give_back(std::vector<std::byte>&& message) { buffers_.give_back(std::move(message)); }
  // Nobody is left who could ask.
  bool deserted() const;

  // For those who look at the tables of a server that nobody uses any more.
  ShardTable* find(const std::string& table) const;

 private:
  struct OpenTable {
    std::unique_ptr<ShardTable> table;
    std::map<std::int64_t, std::vector<Update>> gathered;  // by step; softsync: all under 0
    std::vector<std::int64_t> applied;                     // of each worker: its updates of steps before are in it
    Staleness staleness;                                   // of updates, in updates missed
    std::unique_ptr<BucketShare> buckets = {};             // where servers share their load anew
    struct SnapshotOf {
      int worker = 0;
      std::uint64_t request = 0;  // that has begun it
      auto operator<=>(const SnapshotOf&) const = default;
    };
    std::map<SnapshotOf, std::unique_ptr<ShardSnapshot>> snapshots = {};  // after the table, which outlives them
  };
  struct Worker {
    std::uint64_t received = 0;       // the last request
    std::uint64_t last_sequence = 0;  // that was dealt with: others wait in `held`
    std::deque<std::vector<std::byte>> held;
    KeyLists lists;
    bool gone = false;
  };
  struct Parked {
    int worker = 0;
    std::vector<std::byte> message;
  };

  void take(int worker, std::vector<std::byte>& message);
  void dispatch(int worker, const TableRequest& request, std::vector<std::byte>& message);
  void open(int worker, const TableRequest& request);
  void push(int worker, const TableRequest& request, std::vector<std::byte>& message);
  void pull(int worker, const TableRequest& request, std::vector<std::byte>& message);
  void tell_statistics(int worker, const TableRequest& request);
  void clock(int worker, const TableRequest& request);
  void leave(int worker);
  void lost(const TableRequest& request);
  void break_off(const std::string& why);

  // shard_snapshot.cpp
  void begin_snapshot(int worker, const TableRequest& request, OpenTable& open);
  void tell_piece(int worker, const TableRequest& request);
  void end_snapshot(int worker, const TableRequest& request);
  void end_snapshots(int worker);
  void restore(int worker, const TableRequest& request);
  std::string objection_to_place(const OpenTable& open, const TablePiece& piece) const;

  // shard_balance.cpp
  BucketShare& buckets_of(const TableRequest& request);
  void tell_loads(int worker, const TableRequest& request);
  void plan(int worker, const TableRequest& request);
  void adopt(int worker, const TableRequest& request);
  void hand_over();
  void hand_over(OpenTable& open, const BucketShare::HandOver& due);
  bool must_wait(int worker, std::span<const std::byte> message);
  void release_held();

  OpenTable& table_of(const TableRequest& request);
  void answer_failures(int worker, const TableRequest& request, const std::function<void()>& body);
  KeyLists& lists_of(int worker) { return workers_[static_cast<std::size_t>(worker)].lists; }
  std::optional<std::span<float>> find_mapped(int worker, const MappedValues& where, std::size_t floats) const;
  std::span<float> mapped_values(int worker, const MappedValues& where, std::size_t floats) const;
  std::string take_update(OpenTable& open, Update update);
  std::string apply(OpenTable& open, std::span<const Update> updates, int divide_by,
                    std::span<const ReadAlong> readers);
  void keep(Update& update, std::vector<std::byte>& message);
  void own_values(int worker, std::span<Update> updates);
  bool find_again(Update& update) const;
  void settle();
  void apply_complete_steps(OpenTable& open);
  void take_readers_along(const OpenTable& open, std::span<const Update> updates, std::vector<Parked>& along,
                          std::vector<ReadAlong>& readers);
  std::optional<ReadAlong> reading_along(const Parked& parked, const OpenTable& open,
                                         std::span<const Update> updates) const;
  void release_parked();
  std::int64_t contained_of(const OpenTable& open, int worker) const;
  bool contains(const OpenTable& open, std::int64_t required) const;
  void answer_or_park(int worker, const TableRequest& request, std::vector<std::byte>& message);
  void answer_pull(int worker, const TableRequest& request, OpenTable& open);
  std::vector<std::byte>& begin_answer(int worker, const TableRequest& request, const OpenTable* open,
                                       ReplyHeader header);
  std::span<float> answer_with_values(int worker, const TableRequest& request, const OpenTable& open,
                                      std::size_t floats);
  void answer(int worker, const TableRequest& request, const OpenTable* open, Status status,
              std::string_view sentence = {});

  // Constant after construction.
  const ServerShardOptions options_;
  const Map map_;

  Clocks clocks_;
  std::vector<Worker> workers_;
  std::vector<OpenTable> tables_;
  std::vector<Parked> parked_;
  std::vector<Answer> answers_;
  std::vector<ToServer> handovers_;
  MessageBuffers buffers_;  // of answers
  std::string broken_;      // why no pull can be answered any more; bsp only: who died, or what could not be applied
};

}  // namespace paceline
