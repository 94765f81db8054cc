#include "paceline/sync/staleness.hpp"

#include <algorithm>
#include <bit>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

constexpr int kExact = 16;  // buckets of one value
constexpr int kExactBits = 4;
constexpr std::size_t kHeads = 6;  // numbers of sums() before the histogram

void count_in(Staleness::Measure& measure, std::int64_t value) {
  measure.sum += static_cast<double>(value);
  measure.squares += static_cast<double>(value) * static_cast<double>(value);
  measure.max = std::max(measure.max, value);
}

void merge_in(Staleness::Measure& measure, const Staleness::Measure& other) {
  measure.sum += other.sum;
  measure.squares += other.squares;
  measure.max = std::max(measure.max, other.max);
}

}  // namespace

int Staleness::bucket_of(std::int64_t clocks) {
  if (clocks < kExact) return static_cast<int>(std::max<std::int64_t>(clocks, 0));
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(clocks)));
  return std::min(kExact + bits - kExactBits - 1, kBuckets - 1);
}

std::int64_t Staleness::bucket_begin(int bucket) {
  return bucket < kExact ? bucket : std::int64_t{1} << (bucket - kExact + kExactBits);
}

void Staleness::add(std::int64_t in_clocks, std::int64_t updates_missed, bool violated) {
  const std::int64_t clocks = std::max<std::int64_t>(in_clocks, 0);
  ++count_;
  violations_ += violated;
  count_in(clocks_, clocks);
  count_in(missed_, std::max<std::int64_t>(updates_missed, 0));
  ++histogram_[static_cast<std::size_t>(bucket_of(clocks))];
}

void Staleness::merge(const Staleness& other) {
  count_ += other.count_;
  violations_ += other.violations_;
  merge_in(clocks_, other.clocks_);
  merge_in(missed_, other.missed_);
  for (std::size_t i = 0; i < histogram_.size(); ++i) histogram_[i] += other.histogram_[i];
}

double Staleness::Measure::mean(std::int64_t count) const { return count == 0 ? 0 : sum / static_cast<double>(count); }

double Staleness::Measure::variance(std::int64_t count) const {
  if (count == 0) return 0;
  // Rounding can take it below zero where all values are alike.
  return std::max(squares / static_cast<double>(count) - mean(count) * mean(count), 0.0);
}

std::vector<double> Staleness::sums() const {
  std::vector<double> flat = {static_cast<double>(count_),
                              static_cast<double>(violations_),
                              clocks_.sum,
                              clocks_.squares,
                              missed_.sum,
                              missed_.squares};
  for (const std::int64_t reads : histogram_) flat.push_back(static_cast<double>(reads));
  return flat;
}

std::vector<double> Staleness::maxima() const {
  return {static_cast<double>(clocks_.max), static_cast<double>(missed_.max)};
}

Staleness Staleness::from(std::span<const double> sums, std::span<const double> maxima) {
  CHECK(sums.size() == kHeads + kBuckets && maxima.size() == 2, "the flat form of a Staleness has its length");
  Staleness made;
  made.count_ = static_cast<std::int64_t>(sums[0]);
  made.violations_ = static_cast<std::int64_t>(sums[1]);
  made.clocks_ = {sums[2], sums[3], static_cast<std::int64_t>(maxima[0])};
  made.missed_ = {sums[4], sums[5], static_cast<std::int64_t>(maxima[1])};
  for (std::size_t i = 0; i < kBuckets; ++i) made.histogram_[i] = static_cast<std::int64_t>(sums[kHeads + i]);
  return made;
}

}  // namespace paceline
