#include "paceline/data/loader.hpp"

#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {

Loader::Loader(Dataset data, Normalisation normalisation, const SamplerOptions& options, int worker,
               const Augmentation& augmentation)
    : data_(std::move(data)),
      normalisation_(std::move(normalisation)),
      worker_(worker),
      sampler_(options),
      augmenter_({.augmentation = augmentation, .seed = options.seed}),
      prefetch_([this](std::size_t step, Batch& batch) { load(step, batch); }) {
  CHECK(options.samples == data_.size(), "a loader samples all of its data");
  check_augmentation(augmentation, data_.form());
  CHECK(worker >= 0 && worker < options.workers, "a loader's worker is one of the workers");
}

void Loader::begin_epoch(int epoch, std::size_t consumed) {
  prefetch_.stop();
  sampler_.begin_epoch(epoch, consumed);
  augmenter_.epoch = epoch;
  prefetch_.start(sampler_.steps());
}

void Loader::load(std::size_t step, Batch& batch) const {
  fill(batch, data_, normalisation_, sampler_.indices(step, worker_), augmenter_);
  batch.global_size = sampler_.global_size(step);
  batch.consumed = sampler_.consumed_after(step);
}

}  // namespace paceline
