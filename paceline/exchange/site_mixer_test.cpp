#include "paceline/exchange/site_mixer.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include "paceline/core/error.hpp"
#include "paceline/exchange/mixer_test_support.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

using Numbers = std::vector<int>;

// Sites of so many ranks each, one after the other.
Sites sites_of(const Numbers& sizes) {
  Numbers of_rank;
  for (std::size_t site = 0; site < sizes.size(); ++site)
    of_rank.insert(of_rank.end(), static_cast<std::size_t>(sizes[site]), static_cast<int>(site));
  return make_sites(of_rank);
}
int ranks_of(const Sites& sites) { return static_cast<int>(sites.of_rank.size()); }
int site_of(const Sites& sites, Endpoint& endpoint) { return sites.of_rank[static_cast<std::size_t>(endpoint.rank())]; }

// In each step the ranks of site s add s + 1; the others' share is by their numbers of workers.
double mean_step(const Sites& sites) {
  double sum = 0;
  for (const int site : sites.of_rank) sum += site + 1;
  return sum / ranks_of(sites);
}

void make_steps(MixedRank& own, const Sites& sites, Endpoint& endpoint) {
  const int site = site_of(sites, endpoint);
  for (int step = 0; step < 9; ++step) {
    own.add(site + 1);
    own.mixer().end_update(step);
    const int rounds = (step + 1) / 3;
    own.expect(3 * rounds * mean_step(sites) + (step + 1) % 3 * (site + 1), 1e-3);
    EXPECT_EQ(own.mixer().agreed(), step % 3 == 2);
    EXPECT_TRUE(own.mixer().complete());
  }
}

TEST(SiteMixer, AveragesOverWorkersAfterEveryKStepsWhateverTheSizesOfSites) {
  for (const Numbers& sizes : {Numbers{1, 1}, Numbers{2, 2}, Numbers{3, 1}, Numbers{1, 2, 4}, Numbers{2, 2, 2}}) {
    for (const std::string where : {"allreduce", "ring", "ordered", "shm"}) {
      const Sites sites = sites_of(sizes);
      run_shm_threads(ranks_of(sites), [&](Endpoint& endpoint) {
        MixedRank own(endpoint, sites, "when=local:3 where=" + where);
        make_steps(own, sites, endpoint);
      });
    }
  }
}

TEST(SiteMixer, RanksOfASiteNeedNotBeSideBySide) {
  const Sites sites = make_sites(Numbers{0, 1, 0, 2, 1, 0});
  run_ranks(6, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, sites, "when=local:3");
    make_steps(own, sites, endpoint);
  });
}

TEST(SiteMixer, LeavesAllRanksWithTheSameBits) {
  for (const Numbers& sizes : {Numbers{2, 2}, Numbers{3, 1}, Numbers{1, 2, 4}}) {
    const Sites sites = sites_of(sizes);
    run_shm_threads(ranks_of(sites), [&](Endpoint& endpoint) {
      MixedRank own(endpoint, sites, "when=local:2");
      const int site = site_of(sites, endpoint);
      for (int step = 0; step < 4; ++step) {
        own.change([&](double x, std::size_t i) { return x + 0.1 * (site + 1) / (1.0 + static_cast<double>(i)); });
        own.mixer().end_update(step);
      }
      std::vector<float> floats(own.floats().begin(), own.floats().end());
      std::vector<float> all(floats.size() * sites.of_rank.size());
      own.communicator().allgather(view(floats), view(all));
      for (std::size_t rank = 0; rank < sites.of_rank.size(); ++rank)
        EXPECT_EQ(std::memcmp(all.data() + rank * floats.size(), floats.data(), floats.size() * sizeof(float)), 0);
    });
  }
}

TEST(SiteMixer, TheAverageOfSitesOfOneSizeHasTheBitsOfARankOrderedSum) {
  const Sites sites = sites_of({2, 2, 2});
  run_ranks(6, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, sites, "when=local:1");
    const auto value = [](int site, std::size_t i) {
      return 0.1f * static_cast<float>(site + 1) * static_cast<float>(i);
    };
    own.change([&](double, std::size_t i) { return value(site_of(sites, endpoint), i); });
    own.mixer().end_update(0);
    for (std::size_t i = 0; i < MixedRank::kFloats; ++i)
      ASSERT_EQ(own.floats()[i], (value(0, i) + value(1, i) + value(2, i)) / 3);
  });
}

TEST(SiteMixer, DrainEndsARoundAndTheNextBeginsAnew) {
  const Sites sites = sites_of({2, 1});
  run_ranks(3, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, sites, "when=local:4");
    own.add(3.0 * site_of(sites, endpoint));
    own.mixer().end_update(0);
    own.mixer().drain();
    own.expect(1, 1e-6);
    own.mixer().drain();  // nothing to do
    for (int step = 1; step < 5; ++step) {
      own.add(site_of(sites, endpoint));
      own.mixer().end_update(step);
      EXPECT_EQ(own.mixer().agreed(), step == 4);
    }
    own.expect(1 + 4.0 / 3, 1e-5);
  });
}

TEST(SiteMixer, ASiteThatHasNoBatchesLeftIsLeftOutOfTheAverage) {
  const Sites sites = sites_of({2, 1, 1});
  const int batches[] = {1, 7, 4};
  run_ranks(4, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, sites, "when=local:2");
    const int site = site_of(sites, endpoint);
    for (int step = 0; step < batches[site]; ++step) {
      own.add(site + 1);
      own.mixer().end_update(step);
    }
    own.mixer().join();
    // Two workers of one step and two of two; then sites 1 and 2; then site 1 twice.
    own.expect((2 * 1 + 4 + 6) / 4.0 + (4 + 6) / 2.0 + 4 + 2, 1e-4);
  });
}

TEST(SiteMixer, MomentumOfAveragesIsThatOfAPlainLoop) {
  constexpr double kBeta = 0.6;
  const auto rate_of = [](int step) { return step < 4 ? 0.5 : 0.25; };
  double x = 0, u = 0;  // the reference
  for (int step = 1; step < 8; step += 2) {
    const double average = x - 1.5 * rate_of(step) * 2;  // sites go by 1 and 2 times the rate, twice
    u = kBeta * u + (x - average) / rate_of(step);
    x -= rate_of(step) * u;
  }
  const Sites sites = sites_of({2, 2});
  run_ranks(4, [&](Endpoint& endpoint) {
    int now = 0;
    MixedRank own(endpoint, sites, "when=local:2", {.slow_momentum = kBeta}, [&] { return rate_of(now); });
    for (now = 0; now < 8; ++now) {
      own.add(-(site_of(sites, endpoint) + 1) * rate_of(now));
      own.mixer().end_update(now);
    }
    own.expect(x, 1e-4);
  });
}

// What crosses from one site to another in a meeting: S bytes in all from each of two first ranks (2S(m-1)/m), nothing
// from the others, and a census.
TEST(SiteMixer, OneCopyOfTheParametersCrossesFromEachSiteInAMeeting) {
  constexpr std::uint64_t kParameters = MixedRank::kFloats * sizeof(float) + MixedRank::kDoubles * sizeof(double);
  constexpr std::uint64_t kSlack = 100;  // the census
  const Sites sites = sites_of({2, 2});
  run_ranks(4, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, sites, "when=local:8 where=ring");
    const auto across = [&] {
      std::uint64_t sum = 0;
      for (Rank peer = 0; peer < 4; ++peer) {
        if (sites.of_rank[static_cast<std::size_t>(peer)] != site_of(sites, endpoint))
          sum += endpoint.bytes_sent_to(peer);
      }
      return sum;
    };
    own.communicator().barrier();
    const std::uint64_t before = across();
    for (int step = 0; step < 32; ++step) own.mixer().end_update(step);
    const std::uint64_t sent = across() - before;
    if (sites.is_first(endpoint.rank())) {
      EXPECT_GE(sent, 4 * kParameters);
      EXPECT_LE(sent, 4 * (kParameters + kSlack));
    } else {
      EXPECT_EQ(sent, 0u);
    }
  });
}

TEST(SiteMixer, RunsInVirtualTimeAsWell) {
  const Sites sites = sites_of({2, 1});
  const SimReport report = run_sim({.ranks = 3, .seed = 7}, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, sites, "when=local:3");
    make_steps(own, sites, endpoint);
  });
  for (const auto& rank : report.ranks) EXPECT_EQ(rank.outcome, SimReport::Outcome::finished);
}

// Not in all at once: what is sent to the dead may be on its way before anybody knows.
TEST(SiteMixer, ADeathInOneSiteIsAnErrorInAll) {
  const Sites sites = sites_of({2, 2});
  std::atomic<int> failed = 0;
  run_ranks(4, [&](Endpoint& endpoint) {
    try {
      MixedRank own(endpoint, sites, "when=local:2");
      for (int step = 0; step < 1000; ++step) {
        own.add(1);
        if (endpoint.rank() == 3 && step == 3) return;  // leaves in the middle of a round
        own.mixer().end_update(step);
      }
    } catch (const Error&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, 3);
}

}  // namespace
}  // namespace paceline
