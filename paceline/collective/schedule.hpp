// Schedule: a collective algorithm as data. It says what one rank of n does, step by step, on numbered blocks of its
// buffers; one executor (run.hpp) carries it out over any Endpoint, a verifier (verify.hpp) proves it without any,
// and the cost model (cost.hpp) prices it. Rank arithmetic lives in the generators (schedules.hpp), I/O in the
// executor.
//
// Steps are issued in order; a step that communicates goes on while later ones are issued. A step that touches a block
// which an earlier one still reads or writes waits for that one: `link_steps` works these waits out once.
// The k-th send from a to b meets the k-th receive of b from a.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline {

enum class Algorithm : std::uint8_t {
  automatic,  // the cheapest by the cost model
  naive,
  ring,
  butterfly,
  halving_doubling,
  tree,
  star,
  ordered,
  shm,
  hierarchical,
  pairwise,
  chain,
  dissemination,
};
inline constexpr Algorithm kLastAlgorithm = Algorithm::dissemination;
std::string_view name(Algorithm algorithm);

enum class Buffer : std::uint8_t { input, output, scratch };

// `count` consecutive blocks of a buffer. Scratch holds whole copies of the output's blocks: block b of copy c has the
// number c * blocks + b.
struct Blocks {
  Buffer buffer = Buffer::output;
  int first = 0;
  int count = 1;

  bool overlaps(const Blocks& other) const {
    return buffer == other.buffer && first < other.first + other.count && other.first < first + count;
  }
};

enum class Action : std::uint8_t {
  send,     // `what` to `peer`
  receive,  // `what` from `peer`
  reduce,   // a message from `peer`, combined into `what`
  add,      // what = what op with; `with` comes first if peer_first
  move,     // what = with
  fold,    // what = piece of rank 0 op piece of rank 1 op …, finished; this rank's piece is `with`, that of rank r is
           // `what` in scratch copy r
  finish,  // the last step of an average on `what`, after add and reduce; nothing for other operations
  meet,    // tells every other rank that we are here, and waits until all are
  direct,  // what = fold over all ranks' `what`, finished, read from and written to their mapped memory
  pull,    // what = `with` of `peer`, read from its mapped memory
};

struct Step {
  Action action = Action::send;
  int peer = -1;
  Blocks what;
  Blocks with;
  bool peer_first = false;

  bool communicates() const { return action <= Action::reduce; }
};

struct Schedule {
  int blocks = 1;          // into which the output is divided
  int scratch_copies = 0;  // of the output that scratch has room for
  int scratch_block = -1;  // of every copy only this block is used; -1: all
  std::vector<Step> steps = {};
  // waits[i]: earlier steps that must be complete before step i is issued. Filled by link_steps.
  std::vector<std::vector<int>> waits = {};

  // A mapped-memory schedule works in one piece, every other one segment by segment.
  bool uses_mapped_memory() const;

  void send(int peer, Blocks what) { steps.push_back({Action::send, peer, what, {}, false}); }
  void receive(int peer, Blocks what) { steps.push_back({Action::receive, peer, what, {}, false}); }
  void reduce(int peer, Blocks what) { steps.push_back({Action::reduce, peer, what, {}, false}); }
  void add(Blocks what, Blocks with, bool peer_first) { steps.push_back({Action::add, -1, what, with, peer_first}); }
  void move(Blocks what, Blocks with) { steps.push_back({Action::move, -1, what, with, false}); }
  void fold(Blocks what, Blocks with) { steps.push_back({Action::fold, -1, what, with, false}); }
  void finish(Blocks what) { steps.push_back({Action::finish, -1, what, {}, false}); }
  void meet() { steps.push_back({Action::meet, -1, {}, {}, false}); }
  void direct(Blocks what) { steps.push_back({Action::direct, -1, what, {}, false}); }
  void pull(int peer, Blocks what, Blocks with) { steps.push_back({Action::pull, peer, what, with, false}); }
};

inline Blocks output(int first, int count = 1) { return {Buffer::output, first, count}; }
inline Blocks input(int first, int count = 1) { return {Buffer::input, first, count}; }

// What a step reads and writes, for whoever reasons about steps. At most two blocks each; `fold` also reads scratch.
std::vector<Blocks> reads(const Step& step, const Schedule& schedule, int ranks);
std::vector<Blocks> writes(const Step& step);

// Fills schedule.waits for a job of n ranks and returns the schedule.
Schedule link_steps(Schedule schedule, int ranks);

// How a schedule's costs are counted in papers: rounds that depend on each other, and what the busiest rank sends.
struct Counts {
  int sends = 0;
  double sent_vectors = 0;  // in units of the whole vector
};
Counts count_sends(const Schedule& schedule);

}  // namespace paceline
