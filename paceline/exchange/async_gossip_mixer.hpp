// AsyncGossipMixer: pairs of ranks average at their own time, and nobody waits (AD-PSGD, Lian et al. 2018).
//
// Note [Asking and answering]. A rank that has made a step sends its parameters x to a partner drawn at random, and
// goes on computing. The partner, when it has made a step itself, takes d = (x - y)/2 from what has come and its own y,
// adds d to y and answers with d. The rank that has asked subtracts d from what its parameters are by then. So the sum
// of both, and the mean over all ranks, stays what it is, though the two numbers that are averaged may be a step apart.
// A rank asks again only when it has its answer. Nobody ever waits for an answer while it trains, so no circle of
// waiting ranks can arise, whatever the graph (the paper's waits for it, which is why it needs a bipartite one). When
// all ranks meet, each goes on answering until all have had their last answer.
//
// S bytes asked and S bytes answered per exchange, at most one exchange begun per step; 4S of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/random.hpp"
#include "paceline/exchange/mixer.hpp"

namespace paceline {

class AsyncGossipMixer final : public Mixer {
 public:
  // `algorithm`: when all meet.
  AsyncGossipMixer(Communicator& communicator, Algorithm algorithm, GossipGraph graph, MixerOptions options);
  ~AsyncGossipMixer() override;

  void end_update(std::int64_t step) override;
  void progress() override;

 private:
  int meet(Batches batches) override;
  void ask();
  // True if something has come.
  bool serve();
  bool take_answer();
  bool answer_one();
  void listen();
  // Serves, and sleeps if there is nothing to do.
  void serve_or_sleep();

  const Algorithm algorithm_;
  const GossipGraph graph_;
  const std::uint64_t context_;
  Random random_;
  bool asking_ = false;
  // Buffers as long as all ranges, each with the operation that uses it.
  std::vector<std::byte> question_, answer_, asked_, answered_;
  Pending sending_question_, receiving_answer_, receiving_question_, sending_answer_;
};

}  // namespace paceline
