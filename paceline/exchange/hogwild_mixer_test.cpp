#include "paceline/exchange/hogwild_mixer.hpp"

#include <cmath>

#include "paceline/exchange/mixer_test_support.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

TEST(HogwildMixer, WithALockNoUpdateIsLost) {
  constexpr int kSteps = 200;
  for (const int ranks : {1, 2, 4}) {
    run_shm_threads(ranks, [&](Endpoint& endpoint) {
      MixedRank own(endpoint, "where=hogwild:locked");
      for (int step = 0; step < kSteps; ++step) {
        own.add(1);
        own.mixer().end_update(step);
      }
      own.mixer().drain();
      own.expect(kSteps * ranks);
    });
  }
}

// Lost updates are allowed, invented ones are not: an element is between the steps of one rank and those of all.
TEST(HogwildMixer, WithoutALockEveryElementIsTheSumOfSomeUpdates) {
  constexpr int kSteps = 500;
  for (const int ranks : {1, 2, 3}) {
    run_shm_threads(ranks, [&](Endpoint& endpoint) {
      MixedRank own(endpoint, "where=hogwild");
      for (int step = 0; step < kSteps; ++step) {
        own.add(1);
        own.mixer().end_update(step);
      }
      own.mixer().drain();
      for (const float x : own.floats()) {
        ASSERT_GE(x, 1);
        ASSERT_LE(x, kSteps * ranks);
        ASSERT_EQ(x, std::floor(x));
      }
      if (ranks == 1) own.expect(kSteps);
    });
  }
}

TEST(HogwildMixer, RanksThatChangeDifferentElementsLoseNothing) {
  constexpr int kSteps = 300;
  run_ranks(2, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "where=hogwild");
    for (int step = 0; step < kSteps; ++step) {
      own.change([&](double x, std::size_t i) { return x + (static_cast<int>(i % 2) == endpoint.rank() ? 1 : 0); });
      own.mixer().end_update(step);
    }
    own.mixer().drain();
    own.expect(kSteps);
  });
}

TEST(HogwildMixer, ARankSeesTheOthersUpdatesWithoutMeetingThem) {
  run_ranks(2, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "where=hogwild");
    if (endpoint.rank() == 1) {
      own.add(5);
      own.mixer().end_update(0);
    }
    own.communicator().barrier();
    if (endpoint.rank() == 0) {
      own.mixer().end_update(0);  // with nothing of its own
      own.expect(5);
    }
    own.mixer().join();
    own.expect(5);
  });
}

TEST(HogwildMixer, EndsWithTheRankThatHasMostBatches) {
  run_ranks(3, [&](Endpoint& endpoint) {
    MixedRank own(endpoint, "where=hogwild:locked");
    for (int step = 0; step < 10 * endpoint.rank(); ++step) {
      own.add(1);
      own.mixer().end_update(step);
    }
    own.mixer().join();
    own.expect(30);
  });
}

TEST(HogwildMixer, IsRefusedWhereRanksShareNoMemory) {
  const SimReport report = run_sim({.ranks = 2, .seed = 1, .shared_memory = false}, [&](Endpoint& endpoint) {
    try {
      MixedRank own(endpoint, "where=hogwild");
      ADD_FAILURE() << "it was made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      EXPECT_NE(std::string(error.what()).find("use where=gossip when=async"), std::string::npos);
    }
  });
  for (const auto& rank : report.ranks) EXPECT_EQ(rank.outcome, SimReport::Outcome::finished);
}

}  // namespace
}  // namespace paceline
