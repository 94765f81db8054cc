#include "paceline/exchange/mixer.hpp"

#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/exchange/async_gossip_mixer.hpp"
#include "paceline/exchange/exchange.hpp"
#include "paceline/exchange/gossip_mixer.hpp"
#include "paceline/exchange/hogwild_mixer.hpp"
#include "paceline/exchange/local_mixer.hpp"
#include "paceline/exchange/server_mixer.hpp"
#include "paceline/exchange/site_mixer.hpp"

namespace paceline {

Mixer::Mixer(Communicator& communicator, MixerOptions options)
    : communicator_(communicator), options_(std::move(options)) {}

bool Mixer::takes_part(std::int64_t) { return true; }
std::vector<Table> Mixer::tables() { return {}; }

void Mixer::drain() {
  if (!agreed_) meet(Batches::left);
}

// Costs one meeting of ranks without batches, at the end.
void Mixer::join() {
  while (meet(Batches::none) > 0) {
  }
}

void Mixer::average_over_all(Algorithm algorithm) {
  for (const TensorView& range : options_.parameters)
    communicator_.allreduce(range, ReduceOp::average, {.name = "parameters", .algorithm = algorithm});
}

void Mixer::agree(int left) {
  agreed_ = true;
  complete_ = left == communicator_.size();
}

void Mixer::timed(std::int64_t step, const std::function<void()>& work) {
  const TimePoint start = now();
  const Duration waited_before = communicator_.waited() + waited_;
  work();
  const Duration length = now() - start;
  const Duration waited = communicator_.waited() + waited_ - waited_before;
  communicated_ += length - waited;
  if (options_.trace == nullptr) return;
  // As in an Exchange: a rank first waits for the others, then moves its bytes.
  options_.trace->add({.start = start, .length = waited, .step = step, .activity = Activity::wait});
  options_.trace->add(
      {.start = start + waited, .length = length - waited, .step = step, .activity = Activity::communicate});
}

std::size_t Mixer::bytes() const {
  std::size_t sum = 0;
  for (const TensorView& range : options_.parameters) sum += range.bytes();
  return sum;
}

std::unique_ptr<Mixer> make_mixer(Communicator& communicator, const Plan& plan, MixerOptions options) {
  CHECK(plan.parameters_meet(), "a mixer is for plans whose parameters meet");
  const Algorithm algorithm = algorithm_of(plan, communicator);
  switch (plan.route()) {
    case Where::allreduce:
      return std::make_unique<LocalMixer>(communicator, algorithm, plan.local_steps(), std::move(options));
    case Where::gossip:
      if (plan.timing() == When::async)
        return std::make_unique<AsyncGossipMixer>(communicator, algorithm, plan.graph(), std::move(options));
      return std::make_unique<GossipMixer>(communicator, algorithm, plan.graph(), std::move(options));
    case Where::server: return std::make_unique<ServerMixer>(communicator, plan, std::move(options));
    case Where::hogwild: return std::make_unique<HogwildMixer>(communicator, plan.locked(), std::move(options));
  }
  throw Error(Code::invalid, "this plan has no mixer");
}

std::unique_ptr<Mixer> make_mixer(Communicator& communicator, const Sites& sites, const Plan& between,
                                  MixerOptions options) {
  return std::make_unique<SiteMixer>(communicator, sites, between, std::move(options));
}

}  // namespace paceline
