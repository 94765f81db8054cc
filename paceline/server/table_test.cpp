#include "paceline/server/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/server/server_test_support.hpp"

namespace paceline {
namespace {

using server_test::run_job;
using server_test::TestJob;

constexpr TableSpec::Kind kDense = TableSpec::Kind::dense;

TEST(Table, AGetUnderBspContainsEveryUpdateOfEarlierStepsAndNoLaterOne) {
  for (const int workers : {1, 2, 4}) {
    for (const int servers : {1, 2, 3}) {
      const TestJob job{.workers = workers, .servers = servers};
      run_job(job, [&](Session& session, Endpoint& endpoint) {
        Table table = session.open({.name = "w", .kind = kDense, .rows = 37, .width = 3});
        std::vector<float> values(37 * 3);
        const std::vector<float> changes(values.size(), static_cast<float>(endpoint.rank() + 1));
        const float of_all = static_cast<float>(workers * (workers + 1) / 2);
        for (int step = 0; step < 20; ++step) {
          table.get({0, 37}, values);
          for (const float value : values) ASSERT_EQ(value, static_cast<float>(step) * of_all);
          table.inc({0, 37}, changes);
          session.clock();
        }
      });
    }
  }
}

TEST(Table, AWorkerReadsItsOwnIncsAtOnce) {
  for (const char* policy : {"bsp", "ssp:2", "essp:2", "async"}) {
    const TestJob job{.workers = 1, .servers = 2, .policy = parse_policy(policy)};
    run_job(job, [&](Session& session, Endpoint&) {
      Table dense = session.open({.name = "d", .kind = kDense, .rows = 100});
      Table sparse = session.open({.name = "s"});
      const std::vector<std::uint64_t> keys = {7, 1ULL << 60, 7};
      std::vector<float> rows(100);
      std::vector<float> found(3);
      for (int step = 1; step <= 10; ++step) {
        for (int twice = 0; twice < 2; ++twice) {
          dense.inc({0, 100}, std::vector<float>(100, 1));
          sparse.inc(keys, std::vector<float>{1, 10, 100});
          dense.get({0, 100}, rows);
          sparse.get(keys, found);
          const auto so_far = static_cast<float>(2 * (step - 1) + twice + 1);
          ASSERT_EQ(rows[50], so_far) << policy;
          ASSERT_EQ(found, (std::vector<float>{101 * so_far, 10 * so_far, 101 * so_far})) << policy;
        }
        session.clock();
      }
    });
  }
}

TEST(Table, UnderBspTheBitsAreTheSameForAnyNumberOfServersAndAnyOrderOfArrival) {
  std::vector<std::uint32_t> expected;
  for (const int servers : {1, 2, 5}) {
    for (int again = 0; again < 3; ++again) {
      std::vector<float> end(101);
      const TestJob job{.workers = 3, .servers = servers};
      run_job(job, [&](Session& session, Endpoint& endpoint) {
        Table table = session.open({.name = "w", .kind = kDense, .rows = 101, .rule = "adam:0.01"});
        Random random(7, static_cast<std::uint64_t>(endpoint.rank()));
        std::vector<float> values(101);
        for (int step = 0; step < 8; ++step) {
          table.get({0, 101}, values);
          for (float& value : values) value = static_cast<float>(random.uniform() - 0.5);
          table.push({0, 101}, values).wait();
          session.clock();
        }
        table.get({0, 101}, values);
        if (endpoint.rank() == 0) end = values;
      });
      std::vector<std::uint32_t> bits;
      for (const float value : end) bits.push_back(std::bit_cast<std::uint32_t>(value));
      if (expected.empty()) expected = bits;
      EXPECT_EQ(bits, expected) << servers;
    }
  }
}

TEST(Table, SparsePushesAndPullsAgreeWithAReferenceForKeysInAnyOrderWithDuplicates) {
  for (const int servers : {1, 3}) {
    for (const bool remember : {true, false}) {
      const TestJob job{.servers = servers, .policy = parse_policy("async"), .remember_keys = remember};
      run_job(job, [&](Session& session, Endpoint&) {
        Table table = session.open({.name = "s", .width = 4});
        std::map<std::uint64_t, std::vector<float>> reference;
        Random random(3);
        for (int round = 0; round < 60; ++round) {
          std::vector<std::uint64_t> keys(random.below(200));
          for (auto& key : keys) key = random.below(2) == 0 ? random.below(50) : ~random.below(50);
          std::vector<float> values(keys.size() * 4);
          for (float& value : values) value = static_cast<float>(random.below(16));
          std::vector<float> pulled(values.size());
          table.push_pull(keys, values, pulled).wait();
          for (std::size_t i = 0; i < keys.size(); ++i) {
            auto& row = reference[keys[i]];
            row.resize(4);
            for (std::size_t j = 0; j < 4; ++j) row[j] += values[4 * i + j];
          }
          for (std::size_t i = 0; i < pulled.size(); ++i) ASSERT_EQ(pulled[i], reference[keys[i / 4]][i % 4]);
        }
      });
    }
  }
}

TEST(Table, AListThatServersHaveForgottenIsSentAgain) {
  const TestJob job{.servers = 2, .policy = parse_policy("async")};
  run_job(job, [&](Session& session, Endpoint&) {
    Table table = session.open({.name = "s"});
    const auto list = [](std::uint64_t number) {
      std::vector<std::uint64_t> keys(100);
      std::iota(keys.begin(), keys.end(), number * 1000);
      return keys;
    };
    const std::vector<float> ones(100, 1);
    std::vector<float> pulled(100);
    for (int round = 1; round <= 3; ++round) {
      for (std::uint64_t number = 0; number < 50; ++number) table.push(list(number), ones).wait();
      for (std::uint64_t number = 0; number < 50; ++number) {
        table.pull(list(number), pulled).wait();
        ASSERT_EQ(pulled, std::vector<float>(100, static_cast<float>(round)));
      }
    }
  });
}

TEST(Table, ARepeatedListOfKeysIsSentAsItsHash) {
  const TestJob job{.policy = parse_policy("async")};
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    Table table = session.open({.name = "s"});
    std::vector<std::uint64_t> keys(10'000);
    std::iota(keys.begin(), keys.end(), 5);
    std::vector<float> values(keys.size());
    table.pull(keys, values).wait();
    const auto before = endpoint.counters().bytes_sent;
    table.pull(keys, values).wait();
    EXPECT_LT(endpoint.counters().bytes_sent - before, 200U);
  });
}

TEST(Table, NoReadBreaksTheBoundOfSsp) {
  for (const char* policy : {"ssp:0", "ssp:1", "ssp:3", "essp:0", "essp:3"}) {
    const TestJob job{.workers = 3, .servers = 2, .policy = parse_policy(policy)};
    run_job(job, [&](Session& session, Endpoint& endpoint) {
      Table table = session.open({.name = "w", .kind = kDense, .rows = 64});
      std::vector<float> values(64);
      const std::vector<float> changes(64, 1);
      for (int step = 0; step < 50; ++step) {
        table.get({0, 64}, values);
        const int bound = job.policy.number;
        ASSERT_GE(values[0], static_cast<float>(3 * std::max(0, step - bound))) << policy;
        ASSERT_GE(values[0], static_cast<float>(step)) << policy;
        table.inc({0, 64}, changes);
        session.clock();
        if (endpoint.rank() == 1 && step % 7 == 0) endpoint.progress();
      }
      EXPECT_EQ(session.staleness().violations(), 0);
      EXPECT_LE(session.staleness().max(), job.policy.number);
      EXPECT_EQ(session.staleness().count(), 50);
    });
  }
}

TEST(Table, AfterALookAtTheLatestNoReadIsOlderThoughTheBoundWouldAllowIt) {
  for (const char* policy : {"ssp:9", "essp:9"}) {
    const TestJob job{.workers = 2, .servers = 2, .policy = parse_policy(policy)};
    std::atomic<bool> first_read = false;
    std::atomic<bool> written = false;
    run_job(job, [&](Session& session, Endpoint& endpoint) {
      Table table = session.open({.name = "w", .kind = kDense, .rows = 64});
      const auto wait_for = [&](const std::atomic<bool>& flag) {
        while (!flag) endpoint.idle(endpoint.clock().after(std::chrono::milliseconds(1)));
      };
      std::vector<float> values(64);
      if (endpoint.rank() == 1) {
        wait_for(first_read);
        for (int step = 0; step < 3; ++step) {
          table.inc({0, 64}, std::vector<float>(64, 1));
          session.clock();
        }
        session.flush();
        written = true;
        return;
      }
      table.get({0, 64}, values);
      EXPECT_EQ(values[63], 0);
      first_read = true;
      wait_for(written);
      table.get_latest({0, 64}, values);
      EXPECT_EQ(values[63], 3) << policy;
      table.get({0, 64}, values);
      EXPECT_EQ(values[63], 3) << policy;
    });
  }
}

TEST(Table, UnderAsyncNobodyWaitsForAWorkerThatDoesNothing) {
  const TestJob job{.workers = 2, .policy = parse_policy("async")};
  std::atomic<bool> over = false;
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    Table table = session.open({.name = "w", .kind = kDense, .rows = 8});
    if (endpoint.rank() == 1) {
      while (!over) endpoint.idle(endpoint.clock().after(std::chrono::milliseconds(1)));
      return;
    }
    std::vector<float> values(8);
    for (int step = 0; step < 100; ++step) {
      table.get({0, 8}, values);
      table.inc({0, 8}, std::vector<float>(8, 1));
      session.clock();
    }
    over = true;
  });
}

TEST(Table, SoftsyncAppliesTheAverageOfKUpdatesOfWhomever) {
  const TestJob job{.workers = 1, .policy = parse_policy("softsync:3")};
  run_job(job, [&](Session& session, Endpoint&) {
    Table table = session.open({.name = "w", .kind = kDense, .rows = 2, .rule = "sgd:1"});
    std::vector<float> values(2);
    for (int i = 1; i <= 7; ++i) {
      table.push({0, 2}, std::vector<float>(2, static_cast<float>(-i))).wait();
      session.clock();
      table.get({0, 2}, values);
      const float expected = i < 3 ? 0.0F : i < 6 ? 2.0F : 7.0F;  // (1+2+3)/3, then (4+5+6)/3 more
      EXPECT_FLOAT_EQ(values[0], expected) << i;
    }
  });
}

TEST(Table, AServerAnswersBadRequestsWithASentenceAndGoesOn) {
  const TestJob job{.servers = 2, .policy = parse_policy("async")};
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    Table table = session.open({.name = "s", .width = 2});
    const auto refused = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid);
        return std::string(error.what());
      }
      return std::string("nothing was refused");
    };
    std::vector<float> five(5);
    const std::vector<std::uint64_t> keys = {1, 2};
    EXPECT_NE(refused([&] { table.pull(keys, five); }).find("2 rows of 2 floats are 4 floats, not 5"),
              std::string::npos);
    EXPECT_NE(refused([&] { session.open({.name = "s", .width = 3}); }).find("all workers must open it alike"),
              std::string::npos);
    EXPECT_NE(refused([&] { session.open({.name = "t", .rule = "adamant"}); }).find("adam"), std::string::npos);
    // What no Session would send.
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, sizeof(RequestHeader), sizeof(RequestHeader) + 9}) {
      std::vector<std::byte> garbage(bytes, std::byte{0xff});
      endpoint.send(job.server_ranks()[0], kRequestTag, garbage).wait();
    }
    std::vector<float> four(4, 1);
    table.push(keys, four).wait();
    table.pull(keys, four).wait();
    EXPECT_EQ(four, std::vector<float>(4, 1));
  });
}

TEST(Table, RowsThatDoNotFitTheBudgetArePushedBackAndTheServerLives) {
  const TestJob job{.policy = parse_policy("async")};
  run_job(job, [&](Session& session, Endpoint&) {
    Table table = session.open({.name = "s", .width = 16, .budget_bytes = 1 << 20});
    std::vector<float> row(16, 1);
    bool refused = false;
    for (std::uint64_t key = 0; key < 100'000 && !refused; ++key) {
      try {
        table.push(std::span(&key, 1), row).wait();
      } catch (const Error& error) {
        refused = true;
        EXPECT_NE(std::string(error.what()).find("refused"), std::string::npos) << error.what();
      }
    }
    EXPECT_TRUE(refused);
    const std::uint64_t first = 0;
    table.pull(std::span(&first, 1), row).wait();
    EXPECT_EQ(row, std::vector<float>(16, 1));
  });
}

TEST(Table, ValuesInSharedMemoryAreReadAndWrittenInPlace) {
  const TestJob job{.workers = 2, .servers = 2};
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    constexpr std::uint64_t kRows = 100'000;
    Table table = session.open({.name = "w", .kind = kDense, .rows = kRows, .rule = "sgd:0.5"});
    Arena gradient = endpoint.allocate(kRows * sizeof(float));
    Arena parameters = endpoint.allocate(kRows * sizeof(float));
    const auto sent = endpoint.counters().bytes_sent;
    for (int step = 0; step < 5; ++step) {
      std::fill_n(gradient.as<float>().begin(), kRows, static_cast<float>(endpoint.rank() + 1));
      TablePending push = table.push({0, kRows}, gradient.as<float>().first(kRows));
      push.wait();
      session.clock();
      table.get({0, kRows}, parameters.as<float>().first(kRows));
      for (std::uint64_t i = 0; i < kRows; i += 997)
        ASSERT_FLOAT_EQ(parameters.as<float>()[i], static_cast<float>(step + 1) * -0.75F);
    }
    EXPECT_LT(endpoint.counters().bytes_sent - sent, 10'000U);
  });
}

TEST(Table, ValuesOfKeysInSharedMemoryAreReadAndWrittenInPlaceToo) {
  const TestJob job{.policy = parse_policy("async")};
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    constexpr std::size_t kKeys = 1000;
    constexpr std::size_t kWidth = 32;
    Table table = session.open({.name = "s", .width = kWidth});
    std::vector<std::uint64_t> keys(kKeys);
    std::iota(keys.begin(), keys.end(), 7);
    Arena pushed = endpoint.allocate(kKeys * kWidth * sizeof(float));
    Arena pulled = endpoint.allocate(kKeys * kWidth * sizeof(float));
    const auto values = pushed.as<float>().first(kKeys * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1001);
    const auto sent = endpoint.counters().bytes_sent;
    for (int round = 1; round <= 4; ++round) {
      table.push_pull(keys, values, pulled.as<float>().first(values.size())).wait();
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(pulled.as<float>()[i], static_cast<float>(round) * values[i]);
    }
    EXPECT_LT(endpoint.counters().bytes_sent - sent, kKeys * sizeof(std::uint64_t) + 2000);  // the list, once
  });
}

TEST(Table, MemoryOfAnIncMayBeUsedAgainAfterFlushWhateverThePolicy) {
  for (const char* policy : {"bsp", "ssp:1", "async"}) {
    const TestJob job{.workers = 2, .policy = parse_policy(policy)};
    run_job(job, [&](Session& session, Endpoint& endpoint) {
      constexpr std::uint64_t kRows = 40'000;
      Table table = session.open({.name = "w", .kind = kDense, .rows = kRows});
      Arena changes = endpoint.allocate(kRows * sizeof(float));
      const auto all = changes.as<float>().first(kRows);
      std::vector<float> values(kRows);
      for (int step = 0; step < 5; ++step) {
        std::fill(all.begin(), all.end(), 1.0F);
        table.inc({0, kRows}, all);
        session.flush();
        std::fill(all.begin(), all.end(), 1000.0F);
        session.clock();
        table.get({0, kRows}, values);
        ASSERT_LE(*std::max_element(values.begin(), values.end()), 10.0F) << policy;
        ASSERT_GE(values[0], static_cast<float>(step + 1)) << policy;
      }
    });
  }
}

// One worker raises a row, waits, and raises another: the second never is ahead at any moment.
TEST(Table, ReadingTogetherSeesRowsOfSeveralServersAsTheyWereAtOneMoment) {
  const TestJob job{.workers = 2, .servers = 2, .policy = parse_policy("async")};
  std::atomic<bool> over = false;
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    Table table = session.open({.name = "s"});
    std::uint64_t second = 1;
    while (server_of_key(second, 2) == server_of_key(0, 2)) ++second;
    const std::vector<std::uint64_t> keys = {0, second};
    if (endpoint.rank() == 0) {
      for (int i = 0; i < 300; ++i) {
        for (const std::uint64_t& key : keys) table.push({&key, 1}, std::vector<float>{1}).wait();
        endpoint.idle(endpoint.clock().after(std::chrono::microseconds(100)));
      }
      over = true;
      return;
    }
    std::vector<float> values(2);
    while (!over) {
      table.get_together(keys, values);
      ASSERT_GE(values[0], values[1]);
      ASSERT_LE(values[0], values[1] + 1);
    }
  });
}

}  // namespace
}  // namespace paceline
