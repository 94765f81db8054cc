// How a benchmark measures: message sizes read and written as people do, statistics that a stray pause cannot spoil,
// and the one timing loop that paceline and every peer it is compared with go through. Functions only, no state, so
// that any thread may call any of them.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/error.hpp"

namespace paceline {

// "64KiB" → 65536. Plain numbers are bytes; B, KiB, MiB and GiB are understood, KB and its like are not, because half
// of their users mean 1000 and half 1024.
inline std::size_t parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() || unit == "B" ? 0 : unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : -1;
  if (failed != std::errc{} || shift < 0) {
    throw Error(Code::invalid,
                "'" + std::string(text) + "' is not a size: write bytes, or for example 64KiB, 4MiB, 1GiB");
  }
  if (number > (std::numeric_limits<std::size_t>::max() >> shift)) {
    throw Error(Code::invalid, "the size '" + std::string(text) + "' does not fit into 64 bits");
  }
  return static_cast<std::size_t>(number) << shift;
}

// "1KiB:256MiB" → 1KiB, 2KiB, 4KiB … and 256MiB itself even where doubling steps over it. The factor is two because
// the interesting bends (caches, eager limits) sit on powers of two.
inline std::vector<std::size_t> parse_size_range(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::size_t first = parse_size(text.substr(0, colon));
  if (colon == text.npos) return {first};
  const std::size_t last = parse_size(text.substr(colon + 1));
  if (first == 0 || first > last) {
    throw Error(Code::invalid, "the range '" + std::string(text) + "' must go from a size above zero to a larger one");
  }
  std::vector<std::size_t> sizes{first};
  while (sizes.back() <= last / 2) sizes.push_back(sizes.back() * 2);
  if (sizes.back() != last) sizes.push_back(last);
  return sizes;
}

// A comma list of sizes and ranges, in the order given: "0,1KiB:8KiB,1000000".
inline std::vector<std::size_t> parse_sizes(std::string_view text) {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const auto part = parse_size_range(text.substr(begin, comma - begin));
    sizes.insert(sizes.end(), part.begin(), part.end());
    begin = comma + 1;
  }
  return sizes;
}

// 65536 → "64 KiB", 1500 → "1500 B", 1572864 → "1.5 MiB": the largest unit that needs at most one decimal.
inline std::string format_bytes(std::size_t bytes) {
  constexpr const char* kUnits[] = {"GiB", "MiB", "KiB"};
  for (int i = 0; i < 3; ++i) {
    const double value = static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << (30 - 10 * i));
    if (value < 1 || value * 10 != std::floor(value * 10)) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%.*f %s", value == std::floor(value) ? 0 : 1, value, kUnits[i]);
    return text;
  }
  return std::to_string(bytes) + " B";
}

// The value below which a share `q` of the samples lies, between neighbours interpolated. `samples` must not be empty.
inline double quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  const double place = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (samples[above] - samples[below]) * (place - static_cast<double>(below));
}

inline double median(const std::vector<double>& samples) { return quantile(samples, 0.5); }

// Median absolute deviation: the spread's median, as deaf to outliers as the median itself.
inline double mad(std::vector<double> samples) {
  const double middle = median(samples);
  for (double& sample : samples) sample = std::abs(sample - middle);
  return median(samples);
}

struct Timing {
  double median_us = 0, mad_us = 0, p99_us = 0;
};

inline Timing summarize(const std::vector<double>& batch_us) {
  return {.median_us = median(batch_us), .mad_us = mad(batch_us), .p99_us = quantile(batch_us, 0.99)};
}

// Gigabytes (10^9) of one rank's buffer per second.
inline double gbps(std::size_t bytes, double us) { return us > 0 ? static_cast<double>(bytes) / us / 1e3 : 0; }

struct Batches {
  std::size_t count = 0, operations = 0;  // `operations` in each of `count` batches
};

// At most 100 batches, so that p99 means something, of as many operations as fit the budget; at least five of one.
inline Batches plan_batches(double operation_us, double seconds) {
  const double fitting = seconds * 1e6 / std::max(operation_us, 1e-3);
  const auto operations = static_cast<std::size_t>(std::max(1.0, fitting / 100));
  const double count = std::round(fitting / static_cast<double>(operations));
  return {.count = static_cast<std::size_t>(std::clamp(count, 5.0, 100.0)), .operations = operations};
}

// Microseconds per operation of `count` back-to-back calls on this rank.
template <class Operation>
double time_batch(Operation& operation, std::size_t count) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) operation();
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  return spent.count() / static_cast<double>(count);
}

// Times a collective as osu_allreduce does: operations follow each other without a pause, and a batch's time is the
// mean over the ranks of what each needed per operation. Called by every rank at once.
//
// `average(us)` must return the mean over ranks, the same bits on each of them, and must not return before all have
// called it: the ranks agree on the number of operations through it, and start each batch together.
template <class Operation, class Average>
Timing measure(Operation&& operation, Average&& average, double seconds) {
  std::size_t warm_up = 1;
  double operation_us = average(time_batch(operation, warm_up));
  while (operation_us * static_cast<double>(warm_up) < seconds * 1e5) {
    warm_up *= 2;
    operation_us = average(time_batch(operation, warm_up));
  }
  const Batches batches = plan_batches(operation_us, seconds);
  std::vector<double> batch_us(batches.count);
  for (double& us : batch_us) us = average(time_batch(operation, batches.operations));
  return summarize(batch_us);
}

}  // namespace paceline
