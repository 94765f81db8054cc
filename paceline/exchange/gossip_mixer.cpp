#include "paceline/exchange/gossip_mixer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/reduce.hpp"

namespace paceline {

GossipMixer::GossipMixer(Communicator& communicator, Algorithm algorithm, GossipGraph graph, MixerOptions options)
    : Mixer(communicator, std::move(options)), algorithm_(algorithm), graph_(graph) {
  std::size_t largest = 1;
  for (const TensorView& range : options_.parameters) largest = std::max(largest, range.bytes());
  sent_ = communicator_.endpoint().allocate(kMostNeighbours * largest);
  received_ = communicator_.endpoint().allocate(kMostNeighbours * largest);
}

void GossipMixer::end_update(std::int64_t step) {
  agreed_ = false;
  last_step_ = step;
  const GossipStep now_mixing{
      .graph = graph_, .ranks = communicator_.size(), .step = step, .seed = options_.choices.seed};
  const std::vector<int> neighbours = gossip_neighbours(now_mixing, communicator_.rank());
  timed(step, [&] {
    for (const TensorView& range : options_.parameters) mix_range(range, neighbours);
  });
}

void GossipMixer::mix_range(const TensorView& range, const std::vector<int>& neighbours) {
  TensorView out = range, in = range;
  out.data = sent_.memory().data();
  in.data = received_.memory().data();
  out.count = in.count = range.count * static_cast<std::int64_t>(neighbours.size());
  std::vector<const std::byte*> sources = {range.begin()};
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    std::memcpy(out.begin() + i * range.bytes(), range.data, range.bytes());
    sources.push_back(in.begin() + i * range.bytes());
  }
  communicator_.neighbour_exchange(out, in, neighbours, {.name = "parameters of neighbours"});
  if (neighbours.empty()) return;
  std::byte* const targets[] = {range.begin()};
  fold({.op = ReduceOp::average,
        .dtype = range.dtype,
        .sources = sources,
        .targets = targets,
        .bytes = range.bytes(),
        .divide_by = static_cast<int>(sources.size())});
}

int GossipMixer::meet(Batches batches) {
  if (batches == Batches::none) {
    throw Error(Code::invalid,
                "with where=gossip when=bsp each worker mixes with its neighbours in every step, so all need the same "
                "number of batches; for different numbers use where=gossip when=async, or when=local:8");
  }
  timed(last_step_, [&] { average_over_all(algorithm_); });
  agree(communicator_.size());
  return communicator_.size();
}

}  // namespace paceline
