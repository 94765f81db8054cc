// What every contestant of a benchmark has in common: the same options, the same data, the same check of the result
// before anything is timed, the same timing loop, and one JSON line per point.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/cli/measure.hpp"

namespace paceline::bench {

struct Options {
  std::vector<std::size_t> bytes;
  int ranks = 2;
  double seconds = 1;  // per point
  std::string algorithm = "default";
  std::vector<std::string> hosts = {};  // NAMESPACE=ADDRESS of each rank; empty: all on loopback
};

// Exits with a sentence on nonsense, and after --help.
inline Options parse_options(int argc, char** argv) {
  Options options;
  std::string bytes = "1KiB:256MiB";
  CLI::App app("One contestant of script/bench: f32 sum allreduce in place, one JSON line per size");
  app.add_option("--bytes", bytes, "Sizes per rank, for example 1024,64KiB:1MiB");
  app.add_option("--ranks", options.ranks, "Number of ranks")->check(CLI::Range(1, 64));
  app.add_option("--seconds", options.seconds, "Time budget per size")->check(CLI::Range(0.001, 600.0));
  app.add_option("--algorithm", options.algorithm, "What the contestant calls its algorithm");
  app.add_option("--hosts", options.hosts, "Network NAMESPACE=ADDRESS of each rank, where it starts its ranks itself")
      ->delimiter(',');
  try {
    app.parse(argc, argv);
    options.bytes = parse_sizes(bytes);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(2);
  }
  return options;
}

inline constexpr std::size_t kAlignment = 64;

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<float[], Free>;

inline Buffer allocate(std::size_t count) {
  const std::size_t bytes = (count * sizeof(float) + kAlignment) / kAlignment * kAlignment;
  return Buffer(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
}

// Small whole numbers: their sums are exact in f32 in whatever order a contestant adds.
inline float sample(std::size_t i) { return static_cast<float>(i % 13 + 1); }

inline void fill(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = sample(i) * static_cast<float>(rank + 1);
}

inline void check_sum(std::span<const float> data, int rank, int ranks) {
  const auto factor = static_cast<float>(ranks * (ranks + 1) / 2);
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] == sample(i) * factor) continue;
    throw Error(Code::invalid, rank,
                "rank " + std::to_string(rank) + ": the sum is wrong at element " + std::to_string(i));
  }
}

inline void print_point(const std::string& contestant, const Options& options, std::size_t bytes,
                        const Timing& timing) {
  std::printf(R"({"op":"allreduce","contestant":"%s","algorithm":"%s","ranks":%d,"bytes":%zu,)"
              R"("median_us":%.3f,"mad_us":%.3f,"p99_us":%.3f,"gbps":%.4f})"
              "\n",
              contestant.c_str(), options.algorithm.c_str(), options.ranks, bytes, timing.median_us, timing.mad_us,
              timing.p99_us, gbps(bytes, timing.median_us));
  std::fflush(stdout);
}

// One rank's part in all points. `prepare(span<float>)` gives the operation that sums that buffer over the ranks in
// place; `average` is what measure() asks for. Zeros are what is timed: they stay zero however often they are summed,
// where anything else would soon be infinite.
template <class Prepare, class Average>
void run_points(const std::string& contestant, const Options& options, int rank, Prepare&& prepare, Average&& average) {
  for (const std::size_t bytes : options.bytes) {
    const std::size_t count = bytes / sizeof(float);
    const Buffer buffer = allocate(count);
    const std::span<float> data(buffer.get(), count);
    fill(data, rank);
    auto operation = prepare(data);
    operation();
    check_sum(data, rank, options.ranks);
    std::fill(data.begin(), data.end(), 0.0F);
    average(0);
    const Timing timing = measure(operation, average, options.seconds);
    if (rank == 0) print_point(contestant, options, bytes, timing);
  }
}

}  // namespace paceline::bench
