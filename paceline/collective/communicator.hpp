// Communicator: a Group bound to an Endpoint; where collective operations are called.
//
//   Communicator world(job.endpoint(), job.group());
//   world.allreduce(view(gradient), ReduceOp::average);
//   Handle later = world.start_broadcast(view(weights), 0, {.name = "weights"});
//   …
//   later.wait();
//
// All members call the same operations in the same order; ranks that do not get an Error that says who called what.
// After an Error the Communicator is broken: everything outstanding fails, every later call throws the same Error, and
// recover() gives a new one. One thread owns a Communicator and its Handles. The Endpoint outlives its Communicators, a
// Communicator its Handles, and buffers the operations that use them. The k-th Communicator of a Group on one rank is
// the k-th on all; they do not see each other's operations.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/collective/cost.hpp"
#include "paceline/collective/descriptor.hpp"
#include "paceline/collective/schedule.hpp"
#include "paceline/core/group.hpp"
#include "paceline/core/reduce.hpp"
#include "paceline/core/tensor_view.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

class CommunicatorState;
struct Flight;

// A collective operation under way. Move-only. Destroying the handle of an incomplete operation breaks the
// Communicator: the other ranks would wait for it for ever.
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  // Moves messages, then says whether the operation has ended, well or not.
  bool test();
  // Returns when it is complete; throws its Error if it failed.
  void wait();
  // When it was completed; the epoch if it was not. Only with CommunicatorOptions::time_waits.
  TimePoint ended() const;

 private:
  friend class CommunicatorState;
  Handle(CommunicatorState* state, Flight* flight) : state_(state), flight_(flight) {}
  void drop() noexcept;

  CommunicatorState* state_ = nullptr;
  Flight* flight_ = nullptr;
};

struct CollectiveOptions {
  std::string_view name = {};  // shown in errors and warnings; must agree on all ranks
  Algorithm algorithm = Algorithm::automatic;
  Duration timeout = Duration::max();  // an operation that takes longer fails with Code::timeout
};

struct CommunicatorOptions {
  // After this long in one operation, a warning that names the missing ranks and what each of them did last.
  Duration late_after = std::chrono::seconds(10);
  // Where such a warning goes; to standard error if empty. Called on the rank that waits, the lowest if several do.
  std::function<void(const std::string&)> warn = {};
  CostModel cost = {};            // the same on all ranks
  std::size_t segment_bytes = 0;  // see layout.hpp; 0: usual_segment()
  int team_width = 0;             // of `hierarchical`: ranks per team; 0: about the square root of n
  bool time_waits = false;        // count what waited() and ended() tell; costs some looks at the clock
};

class Communicator {
 public:
  using Options = CollectiveOptions;

  Communicator(Endpoint& endpoint, const Group& group, CommunicatorOptions options = {});
  // Another Communicator of the same ranks, whose operations do not have to keep an order with those of the first: for
  // a part of a program that calls operations of its own. The k-th of a name on one rank is the k-th on all.
  static Communicator beside(Endpoint& endpoint, const Group& group, std::string_view name,
                             CommunicatorOptions options = {});
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  int rank() const;  // in this group, which is what `root`, `peer` and the like refer to
  int size() const;
  const Group& group() const;
  // All ranks are on one host and can map each other's arenas.
  bool shares_memory() const;
  bool spans_hosts() const;
  Endpoint& endpoint() const;

  // data = reduction over all ranks, in place.
  void allreduce(TensorView data, ReduceOp op = ReduceOp::sum, const Options& options = {});
  // output = block `rank()` of the reduction; input has size() blocks of output's size. They must not overlap.
  void reduce_scatter(TensorView input, TensorView output, ReduceOp op = ReduceOp::sum, const Options& options = {});
  // output's block r = rank r's input; input may be its own block of output already.
  void allgather(TensorView input, TensorView output, const Options& options = {});
  // As allgather with counts[r] elements from rank r, one after the other.
  void allgatherv(TensorView input, TensorView output, std::span<const std::int64_t> counts,
                  const Options& options = {});
  void broadcast(TensorView data, int root, const Options& options = {});
  // The root's data = reduction over all ranks; the others' data stay as they are.
  void reduce(TensorView data, int root, ReduceOp op = ReduceOp::sum, const Options& options = {});
  // output is used on the root only.
  void gather(TensorView input, TensorView output, int root, const Options& options = {});
  // input is used on the root only.
  void scatter(TensorView input, TensorView output, int root, const Options& options = {});
  // Block r of input goes to rank r, block r of output comes from it. They must not overlap.
  void alltoall(TensorView input, TensorView output, const Options& options = {});
  // As alltoall with counts of elements per rank; what a sends to b must be what b expects from a.
  void alltoallv(TensorView input, std::span<const std::int64_t> send_counts, TensorView output,
                 std::span<const std::int64_t> receive_counts, const Options& options = {});
  // Block i of input goes to neighbours[i], block i of output comes from it. Neighbourhood is mutual, blocks are of one
  // size, no rank is its own neighbour; a rank may have none.
  void neighbour_exchange(TensorView input, TensorView output, std::span<const int> neighbours,
                          const Options& options = {});
  void barrier(const Options& options = {});

  // The same, begun but not waited for.
  Handle start_allreduce(TensorView data, ReduceOp op = ReduceOp::sum, const Options& options = {});
  Handle start_reduce_scatter(TensorView input, TensorView output, ReduceOp op = ReduceOp::sum,
                              const Options& options = {});
  Handle start_allgather(TensorView input, TensorView output, const Options& options = {});
  Handle start_allgatherv(TensorView input, TensorView output, std::span<const std::int64_t> counts,
                          const Options& options = {});
  Handle start_broadcast(TensorView data, int root, const Options& options = {});
  Handle start_reduce(TensorView data, int root, ReduceOp op = ReduceOp::sum, const Options& options = {});
  Handle start_gather(TensorView input, TensorView output, int root, const Options& options = {});
  Handle start_scatter(TensorView input, TensorView output, int root, const Options& options = {});
  Handle start_alltoall(TensorView input, TensorView output, const Options& options = {});
  Handle start_alltoallv(TensorView input, std::span<const std::int64_t> send_counts, TensorView output,
                         std::span<const std::int64_t> receive_counts, const Options& options = {});
  Handle start_neighbour_exchange(TensorView input, TensorView output, std::span<const int> neighbours,
                                  const Options& options = {});
  Handle start_barrier(const Options& options = {});

  // Moves what can be moved for all operations under way. Calling it now and then during a computation overlaps them.
  void progress();

  // Another thread moves what all Communicators of the Endpoint have under way, from now until the owner calls any of
  // them, or recall(). Meanwhile the owner must not use the Endpoint itself. Not in virtual time (can_lend).
  bool can_lend() const;
  void lend();
  bool lent() const;
  void recall() noexcept;

  // A collective: the sub-group of all ranks that gave the same color, ordered by key, then by rank. It breaks when
  // this group does.
  Communicator split(std::int64_t color, std::int64_t key);
  // A collective among the members that are left, after an Error: agrees on who they are and gives the next epoch's
  // Communicator. This one stays broken. Throws Error{timeout} if not all have called it by then, and Error{peer_lost}
  // on those who, cut off from hosts that may live on, are not the majority, nor the half with the lowest rank.
  Communicator recover(Duration timeout = Duration::max());

  // Breaks the group because a rank's numbers are wrong, `culprit`'s in this group: throws Error{unsound} here, and on
  // every other rank the operations under way fail with the same sentence, which names it. `reason` may have 64 bytes.
  [[noreturn]] void give_up(const std::string& reason, int culprit);

  // How long the waits of this rank found nothing to move, in all. Only with Options::time_waits.
  Duration waited() const;
  // Seconds that an operation without root takes by the cost model, on memory from an arena.
  double price_of(Collective op, Algorithm algorithm, std::size_t bytes) const;
  // Which algorithm the operation that was completed last has taken.
  Algorithm last_algorithm() const;

 private:
  explicit Communicator(std::unique_ptr<CommunicatorState> state);
  std::unique_ptr<CommunicatorState> state_;
};

}  // namespace paceline
