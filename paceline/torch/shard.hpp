// shard: one worker's part of a torch dataset, reshuffled each epoch.
//
//   auto batches = paceline::shard(dataset.map(torch::data::transforms::Stack<>()), job, {.batch = 64});
//   for (int epoch = 0; epoch < 3; ++epoch) {
//     for (auto& batch : batches.epoch(epoch)) { … batch.data, batch.target … }
//   }
//
// Over all workers each example comes exactly once per epoch, and every worker makes the same number of steps. The
// parts of an epoch's last step may differ by one example. If that step has fewer examples than there are workers, it
// is left out: a worker without a batch would have nothing to compute a loss from. One thread owns a Shard.
#pragma once

#include <torch/data/datasets/base.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/data/sampler.hpp"
#include "paceline/launch/join.hpp"

namespace paceline {

struct ShardOptions {
  int batch = 64;  // per worker
  std::uint64_t seed = 1;
};

template <class Dataset>
class Shard {
 public:
  using Batch = typename Dataset::BatchType;

  Shard(Dataset dataset, SamplerOptions options, int worker)
      : dataset_(std::move(dataset)), sampler_(options), workers_(options.workers), worker_(worker) {
    sampler_.begin_epoch(0);
  }

  class Iterator {
   public:
    Iterator(Shard* shard, std::size_t step) : shard_(shard), step_(step) {}
    Batch& operator*() { return shard_->load(step_); }
    Iterator& operator++() {
      ++step_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return step_ != other.step_; }

   private:
    Shard* shard_;
    std::size_t step_;
  };

  // Another order for another number; epoch 0 before the first call.
  Shard& epoch(int number) {
    sampler_.begin_epoch(number);
    return *this;
  }
  Iterator begin() { return {this, 0}; }
  Iterator end() { return {this, steps()}; }
  std::size_t steps() const {
    const std::size_t all = sampler_.steps();
    const bool thin = all > 0 && sampler_.global_size(all - 1) < static_cast<std::size_t>(workers_);
    return thin ? all - 1 : all;
  }
  // By what the loss of the batch at hand is to be multiplied so that all examples of a step count alike: 1, but for an
  // uneven last step.
  double weight() const { return weight_; }

 private:
  Batch& load(std::size_t step) {
    const auto indices = sampler_.indices(step, worker_);
    const std::vector<std::size_t> wide(indices.begin(), indices.end());
    weight_ = static_cast<double>(wide.size()) * workers_ / static_cast<double>(sampler_.global_size(step));
    batch_ = dataset_.get_batch(wide);
    return *batch_;
  }

  Dataset dataset_;
  Sampler sampler_;
  const int workers_;
  const int worker_;
  double weight_ = 1;
  std::optional<Batch> batch_;
};

template <class Dataset>
Shard<Dataset> shard(Dataset dataset, const Job& job, const ShardOptions& options = {}) {
  const std::size_t samples = dataset.size().value();
  return Shard<Dataset>(
      std::move(dataset),
      SamplerOptions{.samples = samples, .batch = options.batch, .workers = job.size(), .seed = options.seed},
      job.rank());
}

}  // namespace paceline
