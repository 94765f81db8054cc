#include "paceline/data/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

const SamplerOptions& checked(const SamplerOptions& options) {
  const auto& [samples, batch, workers, seed, dealt] = options;
  CHECK(dealt.empty() || dealt.size() == samples, "all examples are dealt out, or none");
  if (batch < 0) throw Error(Code::invalid, fmt::format("a batch of {} is impossible: it must be 1 at least", batch));
  if (workers < 1) throw Error(Code::invalid, fmt::format("{} workers are impossible: 1 at least is needed", workers));
  if (samples > UINT32_MAX) throw Error(Code::invalid, fmt::format("{} examples are more than 2^32 - 1", samples));
  if (samples < static_cast<std::size_t>(workers)) {
    throw Error(Code::invalid, fmt::format("{} workers cannot share {} examples: use fewer workers", workers, samples));
  }
  const std::size_t slice = static_cast<std::size_t>(batch) * static_cast<std::size_t>(workers);
  if (slice > samples) {
    throw Error(Code::invalid,
                fmt::format("one step of {} workers with a batch of {} each takes {} examples, but there "
                            "are {}: use a smaller batch",
                            workers, batch, slice, samples));
  }
  return options;
}

// Fisher & Yates'.
void shuffle(std::vector<std::uint32_t>& order, Random random) {
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options)
    : options_(checked(options)),
      slice_(options.batch == kWholeSet
                 ? options.samples
                 : static_cast<std::size_t>(options.batch) * static_cast<std::size_t>(options.workers)) {}

void Sampler::begin_epoch(int epoch, std::size_t consumed) {
  if (epoch < 0) throw Error(Code::invalid, fmt::format("epoch {} is impossible: they count from 0", epoch));
  if (consumed > options_.samples) {
    throw Error(Code::invalid, fmt::format("{} examples of epoch {} cannot be done already: it has only {}", consumed,
                                           epoch, options_.samples));
  }
  consumed_ = consumed;
  order_.resize(options_.samples);
  options_.dealt.empty() ? shuffle_all(epoch) : shuffle_dealt(epoch);
}

// From the identity: an epoch's permutation does not depend on the epochs before it.
void Sampler::shuffle_all(int epoch) {
  std::iota(order_.begin(), order_.end(), 0U);
  shuffle(order_, Random(options_.seed, static_cast<std::uint64_t>(epoch)));
}

// Each worker's are laid out where its parts of the slices will be. They are as many as its share of all examples: full
// slices give everybody a batch, and the last one is shared like the whole.
void Sampler::shuffle_dealt(int epoch) {
  for (int worker = 0; worker < options_.workers; ++worker) {
    const Range share = share_of(options_.samples, options_.workers, worker);
    std::vector<std::uint32_t> own(options_.dealt.begin() + static_cast<std::ptrdiff_t>(share.first),
                                   options_.dealt.begin() + static_cast<std::ptrdiff_t>(share.last));
    shuffle(own, Random(mix(options_.seed, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(epoch)));
    std::size_t next = 0;
    for (std::size_t first = 0; first < options_.samples; first += slice_) {
      const Range part = share_of(std::min(slice_, options_.samples - first), options_.workers, worker);
      std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(next), part.last - part.first,
                  order_.begin() + static_cast<std::ptrdiff_t>(first + part.first));
      next += part.last - part.first;
    }
  }
}

std::size_t Sampler::steps() const { return order_.empty() ? 0 : (order_.size() - consumed_ + slice_ - 1) / slice_; }

std::size_t Sampler::first_of(std::size_t step) const {
  CHECK(step < steps(), "a step is one of its epoch");
  return consumed_ + step * slice_;
}

std::size_t Sampler::global_size(std::size_t step) const { return std::min(slice_, order_.size() - first_of(step)); }

std::span<const std::uint32_t> Sampler::indices(std::size_t step, int worker) const {
  const Range part = share_of(global_size(step), options_.workers, worker);
  return std::span(order_).subspan(first_of(step) + part.first, part.last - part.first);
}

std::size_t Sampler::consumed_after(std::size_t step) const { return first_of(step) + global_size(step); }

Range share_of(std::size_t samples, int workers, int worker) {
  CHECK(workers >= 1 && worker >= 0 && worker < workers, "a worker is one of the workers");
  const auto index = static_cast<std::size_t>(worker);
  const std::size_t each = samples / static_cast<std::size_t>(workers);
  const std::size_t larger = samples % static_cast<std::size_t>(workers);
  const std::size_t first = index * each + std::min(index, larger);
  return {first, first + each + (index < larger ? 1 : 0)};
}

}  // namespace paceline
