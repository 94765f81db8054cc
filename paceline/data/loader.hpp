// Loader: one worker's batches, assembled on a thread of its own, ahead of the step that takes them. All calls come
// from one thread.
//
//   Loader loader(split.train, split.normalisation, {.samples = split.train.size(), .workers = 4}, rank);
//   loader.begin_epoch(0);
//   while (const Batch* batch = loader.next()) train_on(*batch);
#pragma once

#include <cstddef>

#include "paceline/data/augment.hpp"
#include "paceline/data/batch.hpp"
#include "paceline/data/dataset.hpp"
#include "paceline/data/prefetch.hpp"
#include "paceline/data/sampler.hpp"

namespace paceline {

class Loader {
 public:
  // `options.samples` is the size of `data`. Error{invalid} if `data` cannot be augmented like that.
  Loader(Dataset data, Normalisation normalisation, const SamplerOptions& options, int worker,
         const Augmentation& augmentation = {});

  // Starts to load ahead, also in the middle of another epoch; see Sampler::begin_epoch.
  void begin_epoch(int epoch, std::size_t consumed = 0);
  std::size_t steps() const { return sampler_.steps(); }

  // nullptr at the epoch's end. The batch belongs to the Loader and stays as it is until the next call of next() or
  // begin_epoch(). A worker's part of a smaller last step may be empty; the step is still one that all workers make.
  const Batch* next() { return prefetch_.next(); }
  // What next() will give, if it is there already: for what can be begun before its step. nullptr otherwise.
  const Batch* peek() { return prefetch_.peek(); }

 private:
  void load(std::size_t step, Batch& batch) const;

  const Dataset data_;
  const Normalisation normalisation_;
  const int worker_;
  // Changed only while prefetch_ is stopped.
  Sampler sampler_;
  Augmenter augmenter_;
  Prefetch prefetch_;
};

}  // namespace paceline
