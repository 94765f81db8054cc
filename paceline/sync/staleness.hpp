// Staleness: how old the reads of a run were, counted as they happen: mean, variance, greatest, a histogram, and how
// many broke the policy's bound. Those of several workers are merged, or summed by an allreduce in their flat form.
//
// A value; belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

class Staleness {
 public:
  // Bucket i holds the reads of exactly i clocks up to 15; from there on each is twice as wide as the one before (16 to
  // 31, 32 to 63...), and the last is open.
  static constexpr int kBuckets = 33;
  static int bucket_of(std::int64_t clocks);
  // The least that is counted in a bucket.
  static std::int64_t bucket_begin(int bucket);

  // A read that lacked updates of `in_clocks` steps, counted from the reader's clock, `updates_missed` of them in all
  // workers together. A read that had more than the reader's clock asks for is 0 clocks old, not less.
  void add(std::int64_t in_clocks, std::int64_t updates_missed, bool violated);
  void merge(const Staleness& other);

  // Of one measure, over all reads; 0 where there are none.
  struct Measure {
    double sum = 0, squares = 0;
    std::int64_t max = 0;
    double mean(std::int64_t count) const;
    double variance(std::int64_t count) const;  // of these reads, not an estimate for others
    bool operator==(const Measure&) const = default;
  };

  std::int64_t count() const { return count_; }
  std::int64_t violations() const { return violations_; }
  double mean() const { return clocks_.mean(count_); }
  double variance() const { return clocks_.variance(count_); }
  std::int64_t max() const { return clocks_.max; }
  double mean_missed() const { return missed_.mean(count_); }
  double variance_missed() const { return missed_.variance(count_); }
  std::int64_t max_missed() const { return missed_.max; }
  // kBuckets counts.
  std::span<const std::int64_t> histogram() const { return histogram_; }

  // Everything as numbers of which those of several workers are added up (`sums`) or the greatest is taken (`maxima`).
  // Exact while no number passes 2^53. The lengths are the same on all workers.
  std::vector<double> sums() const;
  std::vector<double> maxima() const;
  static Staleness from(std::span<const double> sums, std::span<const double> maxima);

  bool operator==(const Staleness&) const = default;

 private:
  std::int64_t count_ = 0;
  std::int64_t violations_ = 0;
  Measure clocks_;
  Measure missed_;
  std::array<std::int64_t, kBuckets> histogram_ = {};
};

}  // namespace paceline
