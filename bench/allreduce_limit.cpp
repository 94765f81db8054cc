// The limit of an allreduce on one host: threads of one process that do its memory traffic between two barriers, with
// no messages, no checks and no shared-memory file. What a real allreduce loses against this is its own overhead.
//
// --algorithm: cached (the default) or streaming stores; which is quicker for large buffers is the machine's secret, so
// script/bench tries both.
#include <malloc.h>

#include <atomic>
#include <thread>

#include "bench/contestant.hpp"
#include "bench/limit_kernel.hpp"

namespace {

using namespace paceline::bench;
using paceline::Code;
using paceline::Error;

// Centralised, sense by generation (Mellor-Crummey & Scott 1991, §3.1): one atomic add per rank and round.
class Barrier {
 public:
  explicit Barrier(int ranks) : ranks_(ranks) {}

  void wait() {
    const unsigned generation = generation_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins) {
      if (spins < kSpins) {
        __builtin_ia32_pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr int kSpins = 500;
  const int ranks_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<unsigned> generation_{0};
};

struct Team {
  explicit Team(const Options& given)
      : options(given), barrier(given.ranks), buffers(given.ranks), times(given.ranks) {}

  const Options options;
  Barrier barrier;
  std::vector<float*> buffers;  // each rank sets its own before a barrier
  std::vector<double> times;    // likewise
};

Stores parse_stores(const std::string& name) {
  if (name == "default" || name == "cached") return Stores::cached;
  if (name == "streaming") return Stores::streaming;
  throw Error(Code::invalid, "the limit has no algorithm '" + name + "': choose cached or streaming");
}

// Slices start on cache lines, so that no line is written by two threads.
std::size_t slice_begin(std::size_t count, int rank, int ranks) {
  const std::size_t lines = (count + 15) / 16;
  return std::min(count, lines * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks) * 16);
}

auto prepare(Team& team, int rank, std::span<float> data) {
  const int ranks = team.options.ranks;
  team.buffers[rank] = data.data();
  const Stores stores = parse_stores(team.options.algorithm);
  const std::size_t begin = slice_begin(data.size(), rank, ranks), end = slice_begin(data.size(), rank + 1, ranks);
  return [&team, begin, end, stores] {
    team.barrier.wait();
    sum_into_all(team.buffers, begin, end, stores);
    team.barrier.wait();
  };
}

double average(Team& team, int rank, double value) {
  team.times[rank] = value;
  team.barrier.wait();
  double sum = 0;
  for (const double time : team.times) sum += time;
  team.barrier.wait();
  return sum / team.options.ranks;
}

void run_rank(Team& team, int rank) {
  try {
    run_points(
        "limit", team.options, rank, [&](std::span<float> data) { return prepare(team, rank, data); },
        [&](double value) { return average(team, rank, value); });
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(1);  // the other ranks would wait at the barrier for ever
  }
}

}  // namespace

int main(int argc, char** argv) {
  // With a malloc arena per thread 64 KiB takes almost three times as long: see bench/README.md.
  mallopt(M_ARENA_MAX, 1);
  Team team(parse_options(argc, argv));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < team.options.ranks; ++rank) threads.emplace_back([&team, rank] { run_rank(team, rank); });
}
