#include "paceline/exchange/local_mixer.hpp"

#include <array>
#include <set>

#include "paceline/exchange/exchange.hpp"
#include "paceline/exchange/mixer_test_support.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

TEST(LocalMixer, AveragesAfterEveryKStepsOnEveryRoute) {
  for (const std::string where : {"allreduce", "ring", "ordered", "shm"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      run_shm_threads(ranks, [&](Endpoint& endpoint) {
        MixedRank own(endpoint, "when=local:3 where=" + where);
        for (int step = 0; step < 9; ++step) {
          own.add(endpoint.rank());
          own.mixer().end_update(step);
          const int rounds = (step + 1) / 3;
          const double mean = 3.0 * rounds * (ranks - 1) / 2;
          own.expect(mean + (step % 3 == 2 ? 0 : (step % 3 + 1) * endpoint.rank()), 1e-4);
          EXPECT_EQ(own.mixer().agreed(), step % 3 == 2);
        }
      });
    }
  }
}

TEST(LocalMixer, TheAverageHasTheBitsOfARankOrderedSum) {
  run_ranks(3, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "when=local:1");
    const auto value = [](int rank, std::size_t i) {
      return 0.1f * static_cast<float>(rank + 1) * static_cast<float>(i);
    };
    own.change([&](double, std::size_t i) { return value(endpoint.rank(), i); });
    own.mixer().end_update(0);
    for (std::size_t i = 0; i < MixedRank::kFloats; ++i)
      ASSERT_EQ(own.floats()[i], (value(0, i) + value(1, i) + value(2, i)) / 3);
  });
}

TEST(LocalMixer, DrainEndsARoundAndTheNextBeginsAnew) {
  run_ranks(2, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "when=local:4");
    own.add(2.0 * endpoint.rank());
    own.mixer().end_update(0);
    own.mixer().drain();
    own.expect(1);
    own.mixer().drain();  // nothing to do
    for (int step = 1; step < 5; ++step) {
      own.add(endpoint.rank());
      own.mixer().end_update(step);
      EXPECT_EQ(own.mixer().agreed(), step == 4);
    }
    own.expect(3);
  });
}

TEST(LocalMixer, AveragesOnceIfItIsToDoSoAtTheEnd) {
  run_ranks(3, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "when=local:end");
    const auto sent = endpoint.counters().bytes_sent + endpoint.counters().bytes_direct;
    for (int step = 0; step < 50; ++step) {
      own.add(endpoint.rank());
      own.mixer().end_update(step);
      own.expect((step + 1) * endpoint.rank());
    }
    EXPECT_EQ(endpoint.counters().bytes_sent + endpoint.counters().bytes_direct, sent);
    own.mixer().drain();
    own.expect(50);
  });
}

// What all ranks send in some steps, beside what making things costs.
std::uint64_t bytes_of(const std::string& plan, int steps) {
  std::array<std::uint64_t, 3> bytes{};
  run_shm_threads(3, [&](Endpoint& endpoint) {
    const auto sent = [&] { return endpoint.counters().bytes_sent + endpoint.counters().bytes_direct; };
    const Plan parsed = parse_plan(plan);
    auto communicator = Communicator::beside(endpoint, Group::world(3), "bytes");
    constexpr std::size_t kCount = 3 * 64 * 1024;
    Arena arena = endpoint.allocate(kCount * sizeof(float));
    const TensorView all = view(arena.as<float>());
    std::unique_ptr<Mixer> mixer;
    std::unique_ptr<Exchange> exchange;
    if (parsed.parameters_meet())
      mixer = make_mixer(communicator, parsed, {.parameters = {all}});
    else
      exchange = make_exchange(communicator, parsed, {.gradients = {all}});
    const auto before = sent();
    for (int step = 0; step < steps; ++step) {
      if (mixer) {
        mixer->end_update(step);
      } else {
        exchange->submit({.index = 0, .name = "all", .gradient = all}, step);
        exchange->finish();
      }
    }
    bytes[static_cast<std::size_t>(endpoint.rank())] = sent() - before;
    communicator.barrier();
  });
  return bytes[0] + bytes[1] + bytes[2];
}

TEST(LocalMixer, EightStepsOfItsOwnSendAnEighthOfTheBytes) {
  for (const std::string where : {"shm", "ring", "ordered"}) {
    const auto often = static_cast<double>(bytes_of("when=bsp where=" + where, 16));
    const auto seldom = static_cast<double>(bytes_of("when=local:8 where=" + where, 16));
    EXPECT_NEAR(seldom / often, 1.0 / 8, 0.001) << where;
  }
}

TEST(LocalMixer, MomentumOfAveragesIsThatOfAPlainLoop) {
  constexpr double kBeta = 0.6;
  const auto rate_of = [](int step) { return step < 4 ? 0.5 : 0.25; };
  double x = 0, u = 0;  // the reference
  for (int step = 1; step < 8; step += 2) {
    const double average = x - 1.5 * rate_of(step) * 2;  // ranks go by 1 and 2 times the rate, twice
    u = kBeta * u + (x - average) / rate_of(step);
    x -= rate_of(step) * u;
  }
  run_ranks(2, [&](Endpoint& endpoint) {
    int now = 0;
    MixedRank own(endpoint, "when=local:2", {.slow_momentum = kBeta}, [&] { return rate_of(now); });
    for (now = 0; now < 8; ++now) {
      own.add(-(endpoint.rank() + 1) * rate_of(now));
      own.mixer().end_update(now);
    }
    own.expect(x, 1e-4);
  });
}

TEST(LocalMixer, OnlyTheChosenCountInARound) {
  constexpr int kRanks = 5;
  const MixChoices choices{.participate = 0.4, .seed = 9};
  run_ranks(kRanks, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "when=local:2", choices);
    double expected = 0;
    for (int round = 0; round < 6; ++round) {
      const std::vector<int> chosen = participants(0.4, kRanks, 9, 2 * round);
      ASSERT_EQ(chosen.size(), 2u);
      const bool in = std::find(chosen.begin(), chosen.end(), endpoint.rank()) != chosen.end();
      for (int step = 2 * round; step < 2 * round + 2; ++step) {
        ASSERT_EQ(own.mixer().takes_part(step), in);
        if (in) own.add(endpoint.rank());
        own.mixer().end_update(step);
      }
      expected += chosen[0] + chosen[1];
      own.expect(expected, 1e-4);
    }
  });
}

TEST(LocalMixer, OverManyRoundsEveryRankIsChosenAsOftenAsItsShareSays) {
  std::array<int, 10> times{};
  for (int round = 0; round < 3000; ++round) {
    for (const int rank : participants(0.3, 10, 1, round)) ++times[static_cast<std::size_t>(rank)];
  }
  for (const int count : times) EXPECT_NEAR(count, 900, 100);
  EXPECT_EQ(participants(0.01, 4, 1, 0).size(), 1u);
  EXPECT_EQ(participants(1, 4, 1, 0), (std::vector<int>{0, 1, 2, 3}));
}

TEST(LocalMixer, WhoHasNoBatchesLeftIsLeftOutOfTheAverage) {
  const int batches[] = {1, 7, 4};
  for (const std::string when : {"local:2", "local:end"}) {
    run_ranks(3, [&](Endpoint& endpoint) {
      MixedRank own(endpoint, "when=" + when);
      for (int step = 0; step < batches[endpoint.rank()]; ++step) {
        own.add(endpoint.rank() + 1);
        own.mixer().end_update(step);
      }
      own.mixer().join();
      // local:2: ranks 0 (one step), 1 and 2; then 1 and 2; then rank 1 twice.
      own.expect(when == "local:2" ? (1 + 4 + 6) / 3.0 + (4 + 6) / 2.0 + 4 + 2 : (1 + 14 + 12) / 3.0, 1e-4);
    });
  }
}

TEST(LocalMixer, RunsInVirtualTimeAsWell) {
  const SimReport report = run_sim({.ranks = 3, .seed = 7}, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "when=local:2");
    for (int step = 0; step < 6; ++step) {
      own.add(endpoint.rank());
      own.mixer().end_update(step);
    }
    own.expect(6, 1e-5);
  });
  for (const auto& rank : report.ranks) EXPECT_EQ(rank.outcome, SimReport::Outcome::finished);
}

}  // namespace
}  // namespace paceline
