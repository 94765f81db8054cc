#include "paceline/exchange/site_mixer.hpp"

#include <cstring>
#include <utility>

#include "paceline/core/reduce.hpp"
#include "paceline/exchange/exchange.hpp"
#include "paceline/exchange/float_ranges.hpp"

namespace paceline {
namespace {

bool of_one_size(const Sites& sites) {
  for (int site = 1; site < sites.count(); ++site) {
    if (sites.workers_of(site) != sites.workers_of(0)) return false;
  }
  return true;
}

void multiply(const std::vector<TensorView>& ranges, std::int64_t factor) {
  each_range(ranges, [&]<class T>(std::span<T> elements, std::size_t) {
    for (T& element : elements) element *= static_cast<T>(factor);
  });
}

}  // namespace

SiteMixer::SiteMixer(Communicator& all, Sites sites, const Plan& between, MixerOptions options)
    : Mixer(all, std::move(options)),
      sites_(std::move(sites)),
      own_(sites_.of_rank[static_cast<std::size_t>(all.rank())]),
      first_(sites_.is_first(all.rank())),
      alike_(of_one_size(sites_)),
      steps_(between.local_steps()),
      inside_(all.split(own_, all.rank())),
      between_(all.split(first_ ? 0 : 1, all.rank())),
      algorithm_(algorithm_of(between, between_)),
      slow_(options_.parameters, first_ ? options_.choices.slow_momentum : 0) {
  if (alike_) return;
  weight_ = sites_.workers_of(own_);
  require_floats(options_.parameters, "an average over sites of different sizes");
}

void SiteMixer::end_update(std::int64_t step) {
  agreed_ = false;
  last_step_ = step;
  if (++made_ == steps_) meet(Batches::left);
}

int SiteMixer::meet(Batches batches) {
  const int workers = sites_.workers_of(own_);
  std::vector<std::int64_t> census = {made_ > 0 ? weight_ : 0, batches == Batches::left ? workers : 0};
  timed(last_step_, [&] {
    const Duration waited = inside_.waited() + between_.waited();
    if (first_) {
      between_.allreduce(view(census), ReduceOp::sum, {.name = "which sites meet"});
      if (census[0] > 0) average(census[0]);
    }
    inside_.broadcast(view(census), 0, {.name = "which sites have met"});
    if (census[0] > 0) {
      for (const TensorView& range : options_.parameters)
        inside_.broadcast(range, 0, {.name = "parameters of all sites"});
    }
    waited_ += inside_.waited() + between_.waited() - waited;
  });
  made_ = 0;
  agree(static_cast<int>(census[1]));
  return static_cast<int>(census[1]);
}

// On first ranks. A site that has made no step adds zeros and gets the average like the others.
void SiteMixer::average(std::int64_t weights) {
  const bool plain = alike_ && weights == between_.size();
  if (made_ > 0 && weight_ > 1) multiply(options_.parameters, weight_);
  for (const TensorView& range : options_.parameters) {
    if (made_ == 0) std::memset(range.data, 0, range.bytes());
    between_.allreduce(range, plain ? ReduceOp::average : ReduceOp::sum,
                       {.name = "parameters between sites", .algorithm = algorithm_});
    if (!plain) divide(range.dtype, range.begin(), range.bytes(), static_cast<int>(weights));
  }
  slow_.end_round(options_.learning_rate);
}

void SiteMixer::spread(const std::function<void(Communicator&)>& broadcast) {
  if (first_) broadcast(between_);
  broadcast(inside_);
}

}  // namespace paceline
