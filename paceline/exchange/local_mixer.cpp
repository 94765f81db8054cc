#include "paceline/exchange/local_mixer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "paceline/core/random.hpp"
#include "paceline/core/reduce.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kStreamOfChoices = 0x63686f696365ULL;  // apart from what else is drawn from the seed

}  // namespace

std::vector<int> participants(double share, int n, std::uint64_t seed, std::int64_t step) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const int wanted = std::clamp(static_cast<int>(std::lround(share * n)), 1, n);
  if (wanted < n) {
    Random random(mix(seed, kStreamOfChoices), static_cast<std::uint64_t>(step));
    for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  }
  order.resize(static_cast<std::size_t>(wanted));
  std::sort(order.begin(), order.end());
  return order;
}

LocalMixer::LocalMixer(Communicator& communicator, Algorithm algorithm, std::int64_t steps, MixerOptions options)
    : Mixer(communicator, std::move(options)),
      algorithm_(algorithm),
      steps_(steps),
      slow_(options_.parameters, options_.choices.slow_momentum) {}

bool LocalMixer::takes_part(std::int64_t step) {
  if (made_ == 0 && step != round_began_) {
    const auto all = participants(options_.choices.participate, communicator_.size(), options_.choices.seed, step);
    chosen_ = std::binary_search(all.begin(), all.end(), communicator_.rank());
    round_began_ = step;
  }
  return chosen_;
}

void LocalMixer::end_update(std::int64_t step) {
  takes_part(step);
  agreed_ = false;
  last_step_ = step;
  if (++made_ == steps_) meet(Batches::left);
}

int LocalMixer::meet(Batches batches) {
  const bool counts = chosen_ && made_ > 0;
  std::vector<std::int64_t> census = {counts ? 1 : 0, batches == Batches::left ? 1 : 0};
  timed(last_step_, [&] {
    communicator_.allreduce(view(census), ReduceOp::sum, {.name = "who meets"});
    if (census[0] > 0) average(static_cast<int>(census[0]), counts);
  });
  if (census[0] > 0) slow_.end_round(options_.learning_rate);
  made_ = 0;
  round_began_ = -1;
  agree(static_cast<int>(census[1]));
  return static_cast<int>(census[1]);
}

// Who does not count adds zeros and gets the average like the others.
void LocalMixer::average(int ranks, bool counts) {
  if (ranks == communicator_.size()) return average_over_all(algorithm_);
  for (const TensorView& range : options_.parameters) {
    if (!counts) std::memset(range.data, 0, range.bytes());
    communicator_.allreduce(range, ReduceOp::sum, {.name = "parameters of some", .algorithm = algorithm_});
    divide(range.dtype, range.begin(), range.bytes(), ranks);
  }
}

}  // namespace paceline
