#include "paceline/exchange/hogwild_mixer.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "paceline/exchange/float_ranges.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLine = 64;
constexpr int kTriesBeforeSleep = 2000;
constexpr Duration kSleep = std::chrono::microseconds(50);

std::size_t padded(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

HogwildMixer::HogwildMixer(Communicator& communicator, bool locked, MixerOptions options)
    : Mixer(communicator, std::move(options)), locked_(locked) {
  if (!communicator_.shares_memory() && communicator_.size() > 1)
    throw Error(Code::invalid,
                "where=hogwild has all workers change one memory, and these workers share none: they are on several "
                "hosts; use where=gossip when=async");
  require_floats(options_.parameters, "where=hogwild");
  before_.resize(bytes());
  std::vector<std::int64_t> region = {0};
  if (communicator_.rank() == 0) {
    arena_ = communicator_.endpoint().allocate(padded(bytes()) + kLine);
    region[0] = static_cast<std::int64_t>(
        communicator_.endpoint().locate(arena_.memory().data(), arena_.memory().size())->region);
  }
  std::size_t at = 0;
  for (const TensorView& range : options_.parameters) {
    std::memcpy(before_.data() + at, range.data, range.bytes());
    at += range.bytes();
  }
  if (communicator_.rank() == 0) std::memcpy(arena_.memory().data(), before_.data(), before_.size());
  communicator_.broadcast(view(region), 0, {.name = "the shared parameters"});
  region_ = static_cast<std::uint64_t>(region[0]);
  shared();
  communicator_.barrier({.name = "all have mapped"});
}

// Others may still be adding to this rank's memory. After an Error it is given up, so that they learn of it.
HogwildMixer::~HogwildMixer() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    communicator_.barrier({.name = "all have ended"});
  } catch (const Error&) {
    // Whoever has failed says so itself.
  }
}

std::byte* HogwildMixer::shared() {
  if (communicator_.rank() == 0) return arena_.memory().data();
  const Rank owner = communicator_.group().at(0);
  const auto memory = communicator_.endpoint().map(owner, region_);
  if (!memory || memory->size() < padded(bytes()) + kLine)
    throw Error(Code::peer_lost, owner,
                communicator_.endpoint().describe(owner) + " has released the shared parameters");
  return memory->data();
}

void HogwildMixer::end_update(std::int64_t step) {
  agreed_ = false;
  last_step_ = step;
  timed(step, [&] {
    if (locked_) lock();
    add_changes(shared());
    if (locked_) unlock();
  });
}

void HogwildMixer::add_changes(std::byte* shared) {
  std::size_t written = 0;
  each_range(options_.parameters, [&]<class T>(std::span<T> parameters, std::size_t at) {
    T* const all = reinterpret_cast<T*>(shared + at);
    T* const before = reinterpret_cast<T*>(before_.data() + at);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::atomic_ref<T> element(all[i]);
      T value = element.load(std::memory_order_relaxed);
      const T change = parameters[i] - before[i];
      if (change != 0) {
        value += change;
        element.store(value, std::memory_order_relaxed);
        written += sizeof(T);
      }
      parameters[i] = before[i] = value;
    }
  });
  if (communicator_.rank() != 0) communicator_.endpoint().count_direct(bytes() + written);
}

// Nobody adds meanwhile: all ranks are in meet().
void HogwildMixer::take_shared(const std::byte* shared) {
  std::size_t at = 0;
  for (const TensorView& range : options_.parameters) {
    std::memcpy(range.data, shared + at, range.bytes());
    at += range.bytes();
  }
  std::memcpy(before_.data(), shared, before_.size());
  if (communicator_.rank() != 0) communicator_.endpoint().count_direct(bytes());
}

int HogwildMixer::meet(Batches batches) {
  std::vector<std::int64_t> left = {batches == Batches::left ? 1 : 0};
  timed(last_step_, [&] {
    communicator_.allreduce(view(left), ReduceOp::sum, {.name = "all have added"});
    take_shared(shared());
    communicator_.barrier({.name = "all have read"});
  });
  agree(static_cast<int>(left[0]));
  return static_cast<int>(left[0]);
}

// The lock holds its holder's number, from 1, so that others notice if that dies with it. It is looked for anew after
// each sleep, in which rank 0's memory may have gone.
void HogwildMixer::lock() {
  Endpoint& endpoint = communicator_.endpoint();
  const TimePoint start = now();
  for (int tries = 0;; ++tries) {
    const std::atomic_ref<std::uint64_t> holder(lock_word());
    std::uint64_t found = 0;
    if (holder.compare_exchange_weak(found, static_cast<std::uint64_t>(communicator_.rank()) + 1,
                                     std::memory_order_acquire, std::memory_order_relaxed))
      break;
    if (tries < kTriesBeforeSleep || found == 0) continue;
    const Rank other = communicator_.group().at(static_cast<int>(found) - 1);
    if (endpoint.gone(other)) throw endpoint.departure(other);
    endpoint.idle(now() + kSleep);
  }
  waited_ += now() - start;
}

void HogwildMixer::unlock() { std::atomic_ref<std::uint64_t>(lock_word()).store(0, std::memory_order_release); }

std::uint64_t& HogwildMixer::lock_word() { return *reinterpret_cast<std::uint64_t*>(shared() + padded(bytes())); }

}  // namespace paceline
