// verify: proves of a collective's schedules, all ranks together and without any memory or Endpoint, that they do what
// the collective promises: every block ends with the right content on every rank, sums count every rank once and are
// finished once, every message is received, no rank waits for ever even if nothing is buffered, and no two steps that
// are under way at a time get into each other's way.
//
//   const Verdict verdict = verify(goals::allreduce(n), [&](int rank) { return link_steps(schedules::ring(n, rank), n);
//   }); for (const std::string& finding : verdict.findings) …   // "allreduce, n = 4, rank 2, step 5 (send output 1 to
//   3): …"
//
// Two kinds of proof work together. Overlap is judged from the waits alone, which covers every order in which
// messages can end (verify_overlap.cpp); given that, contents do not depend on the order, and following them in one
// order would do. A few hostile orders are run all the same (verify_run.cpp). Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "paceline/collective/schedule.hpp"

namespace paceline {

// What a block of the output holds at the end, in terms of what blocks held at the beginning.
struct Content {
  enum class Kind : std::uint8_t {
    kept,         // what it held before
    copied,       // what block `block` of `buffer` of `rank` held
    reduced,      // the reduction of block `block` of `buffer` over all ranks
    unspecified,  // whatever
  };
  Kind kind = Kind::kept;
  int rank = -1;
  Buffer buffer = Buffer::output;
  int block = 0;
};

// What a collective of n ranks is to achieve. Inputs always stay as they are.
struct Goal {
  std::string name;
  int ranks = 1;
  // Blocks are even parts of one vector (Layout::of_vector); otherwise each has its own size (Layout::of_blocks).
  bool vector = true;
  std::function<int(int rank)> inputs = [](int) { return 0; };  // blocks of a rank's input
  std::function<int(int rank, int blocks)> outputs = [](int, int blocks) { return blocks; };
  std::function<Content(int rank, int block)> content = {};  // of an output block at the end
  // Blocks with the same number have the same size in every layout that the collective allows.
  std::function<int(int rank, Buffer buffer, int block)> size = [](int, Buffer, int block) { return block; };
  bool all_must_enter = false;  // nobody may be done before everybody has begun
};

namespace goals {
Goal allreduce(int n);
Goal reduce_scatter(int n);
Goal allgather(int n);
Goal alltoall(int n);
Goal broadcast(int n, int root);
Goal reduce(int n, int root);
Goal gather(int n, int root);
Goal scatter(int n, int root);
Goal barrier(int n);
// lists[r]: rank r's neighbours. The k-th block from a to b is the k-th that b takes from a.
Goal neighbours(const std::vector<std::vector<int>>& lists);
}  // namespace goals

struct Verdict {
  // Sentences that name n, rank and step; empty if the schedules are proven. The first of many.
  std::vector<std::string> findings = {};
  // The longest chain of messages each of which is sent because the one before has arrived; a meeting counts as one.
  int rounds = 0;
  // Reductions are compared as expressions, in which only the two sides of one addition may change places.
  bool same_bits_on_all_ranks = true;
  // An element's bits do not depend on the block that it falls into, and so not on the size of the vector around it.
  bool same_bits_in_all_blocks = true;
};

// linked_schedule_of(rank) gives a rank's schedule with its waits filled in.
Verdict verify(const Goal& goal, const std::function<Schedule(int rank)>& linked_schedule_of);

}  // namespace paceline
