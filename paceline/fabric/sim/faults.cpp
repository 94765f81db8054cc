#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/random.hpp"
#include "paceline/fabric/sim/options.hpp"

namespace paceline {
namespace {

// Uniform in the exponent, because what matters about a delay or a moment is its order of magnitude.
double magnitude(Random& random, double least, double most) { return least * std::pow(most / least, random.uniform()); }

Duration span(Random& random, double least_ns, double most_ns) {
  return Duration(static_cast<Duration::rep>(magnitude(random, least_ns, most_ns)));
}

Rank any_rank(Random& random, int ranks) { return static_cast<Rank>(random.below(static_cast<std::uint64_t>(ranks))); }

Faults::Partition random_partition(Random& random, int ranks) {
  Faults::Partition partition{.side = {}, .at = span(random, 1e3, 1e7)};
  for (Rank rank = 1; rank < ranks; ++rank) {
    if (random.below(2) == 0) partition.side.push_back(rank);
  }
  if (partition.side.empty()) partition.side.push_back(ranks - 1);
  return partition;
}

void add_failure(Faults& faults, Random& random, int ranks) {
  const Rank rank = any_rank(random, ranks);
  const Faults::Kill how = random.below(2) == 0 ? Faults::Kill::process : Faults::Kill::host;
  switch (random.below(4)) {
    case 0: faults.deaths.push_back({.rank = rank, .at = span(random, 1e3, 1e7), .how = how}); break;
    case 1:
      faults.deaths.push_back(
          {.rank = rank, .at_call = static_cast<std::uint64_t>(magnitude(random, 1, 2000)), .how = how});
      break;
    case 2: {
      const Rank other = (rank + 1 + any_rank(random, ranks - 1)) % ranks;
      faults.cuts.push_back({.a = rank, .b = other, .at = span(random, 1e3, 1e7)});
      break;
    }
    default: faults.partitions.push_back(random_partition(random, ranks));
  }
}

double microseconds(Duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

std::string describe_death(const Faults::Death& death) {
  const char* how = death.how == Faults::Kill::host ? " with its host" : "";
  if (death.at_call != 0) return fmt::format("rank {} dies{} at its call {}", death.rank, how, death.at_call);
  return fmt::format("rank {} dies{} at {:.3f} us", death.rank, how, microseconds(death.at));
}

}  // namespace

Faults Faults::random_delays(std::uint64_t seed, int ranks) {
  Random random(seed, 0xfa017);
  Faults faults;
  if (random.below(2) == 0) faults.jitter = span(random, 100, 1e5);
  if (random.below(2) == 0) faults.loss = magnitude(random, 0.001, 0.2);
  if (random.below(2) == 0) faults.duplicate = magnitude(random, 0.001, 0.3);
  if (random.below(3) == 0) faults.capacity_frames = 1 + random.below(8);
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (random.below(4) != 0) continue;
    faults.slow.push_back({.rank = rank,
                           .factor = magnitude(random, 1, 50),
                           .pause_chance = magnitude(random, 0.0001, 0.02),
                           .pause = span(random, 1e3, 1e6)});
  }
  return faults;
}

Faults Faults::random(std::uint64_t seed, int ranks) {
  Faults faults = random_delays(seed, ranks);
  Random failures(seed, 0xdead);
  if (ranks > 1 && failures.below(2) == 0) add_failure(faults, failures, ranks);
  return faults;
}

std::string Faults::describe() const {
  std::vector<std::string> parts;
  if (jitter > Duration::zero()) parts.push_back(fmt::format("jitter up to {:.3f} us", microseconds(jitter)));
  if (loss > 0) parts.push_back(fmt::format("loss {:.2f}%", 100 * loss));
  if (duplicate > 0) parts.push_back(fmt::format("duplicates {:.2f}%", 100 * duplicate));
  if (capacity_frames > 0) parts.push_back(fmt::format("links of {} frames", capacity_frames));
  for (const Slow& one : slow) {
    parts.push_back(fmt::format("rank {} {:.1f}x slower, pauses of up to {:.3f} us in {:.2f}% of its calls", one.rank,
                                one.factor, microseconds(one.pause), 100 * one.pause_chance));
  }
  for (const Death& death : deaths) parts.push_back(describe_death(death));
  for (const Cut& cut : cuts) {
    parts.push_back(fmt::format("link {}-{} cut at {:.3f} us", cut.a, cut.b, microseconds(cut.at)));
  }
  for (const Partition& partition : partitions) {
    parts.push_back(
        fmt::format("ranks {} cut off at {:.3f} us", fmt::join(partition.side, " "), microseconds(partition.at)));
  }
  return parts.empty() ? "no faults" : fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace paceline
