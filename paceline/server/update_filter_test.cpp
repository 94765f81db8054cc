#include "paceline/server/update_filter.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/server/server_history_support.hpp"
#include "paceline/server/shard_test_support.hpp"

namespace paceline {
namespace {

using server_test::run_job;
using server_test::ShardBench;
using server_test::TestJob;

constexpr TableSpec::Kind kDense = TableSpec::Kind::dense;

// ---- which rows

TEST(UpdateFilter, RowsOfZerosAreLeftOutWhereTheRestWithItsNumbersIsShorter) {
  for (const std::size_t width : {1U, 3U, 16U}) {
    for (const std::size_t rows : {1U, 2U, 63U, 65U, 1000U}) {
      for (const double share : {0.0, 0.1, 0.3, 0.7, 1.0}) {
        Random random(7, rows * width);
        std::vector<float> values(rows * width);
        std::vector<std::uint32_t> expected;
        for (std::uint32_t row = 0; row < rows; ++row) {
          if (random.uniform() >= share) continue;
          values[row * width + random.below(width)] = -1;
          expected.push_back(row);
        }
        const auto found = rows_worth_sending(values, width);
        const std::size_t bytes = expected.size() * (8 + width * 4);
        if (found) {
          EXPECT_EQ(*found, expected);
          EXPECT_LT(bytes, rows * width * 4);
        } else {
          // Of a large list a look at a few rows may be wrong where it is a near thing.
          EXPECT_GT(static_cast<double>(bytes), 0.7 * static_cast<double>(rows * width * 4)) << rows << " " << share;
        }
      }
    }
  }
}

TEST(UpdateFilter, OnlyWhatCannotChangeTheResultIsLeftOutUnasked) {
  const TableSpec add{.name = "t"};
  EXPECT_TRUE(may_drop_zeros(add, parse_policy("bsp")));
  EXPECT_TRUE(may_drop_zeros(add, parse_policy("async")));
  EXPECT_FALSE(may_drop_zeros(add, parse_policy("softsync:2")));
  for (const char* rule : {"sgd:0.1", "momentum:0.1", "adagrad:0.1", "rmsprop:0.1", "adam:0.1", "ftrl:0.1"})
    EXPECT_FALSE(may_drop_zeros({.name = "t", .rule = rule}, parse_policy("bsp"))) << rule;
  EXPECT_FALSE(may_drop_zeros({.name = "t", .storage = DType::f16}, parse_policy("bsp")));
  EXPECT_FALSE(may_drop_zeros({.name = "t", .admit_after = 2}, parse_policy("bsp")));
  EXPECT_FALSE(may_drop_zeros({.name = "t", .expire_after = 9}, parse_policy("bsp")));
}

TEST(UpdateFilter, AThresholdIsRefusedWhereItWouldBreakAPromise) {
  const auto refused = [](const FilterOptions& filter, const TableSpec& spec, const char* policy) {
    try {
      check(filter, spec, parse_policy(policy));
    } catch (const Error& error) {
      return error.code() == Code::invalid;
    }
    return false;
  };
  const TableSpec add{.name = "t"};
  EXPECT_FALSE(refused({.threshold = 1}, add, "ssp:1"));
  EXPECT_FALSE(refused({.threshold = 0}, add, "bsp"));
  EXPECT_TRUE(refused({.threshold = 1}, add, "bsp"));
  EXPECT_TRUE(refused({.threshold = 1}, add, "softsync:3"));
  EXPECT_TRUE(refused({.threshold = 1}, {.name = "t", .rule = "adam:0.1"}, "ssp:1"));
  EXPECT_TRUE(refused({.threshold = -1}, add, "ssp:1"));
  EXPECT_TRUE(refused({.threshold = std::numeric_limits<float>::quiet_NaN()}, add, "ssp:1"));
  EXPECT_TRUE(refused({.threshold = 1, .flush_every = 0}, add, "ssp:1"));
}

TEST(KeptBack, WhatIsSentAndWhatIsKeptAreTogetherAllThatWasGiven) {
  const TableSpec dense{.name = "d", .kind = kDense, .rows = 50, .width = 2};
  const TableSpec sparse{.name = "s", .width = 2};
  KeptBack of_dense;
  KeptBack of_sparse;
  std::vector<float> given(100);
  std::vector<float> sent_dense(100);
  std::vector<float> sent_sparse(100);
  Random random(3, 1);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t first = random.below(40);
    const std::vector<std::uint64_t> keys = {first, first + 1, first};  // one twice
    std::vector<float> changes(6);
    for (float& change : changes) change = static_cast<float>(random.below(5)) - 2;  // sums are exact
    const auto by_key = of_sparse.sift(sparse, keys, changes, 3);
    std::vector<float> folded = {changes[0] + changes[4], changes[1] + changes[5], changes[2], changes[3]};
    const auto by_range = of_dense.sift(dense, {first, first + 2}, folded, 3);
    for (std::size_t i = 0; i < 4; ++i) {
      given[first * 2 + i] += folded[i];
      sent_dense[first * 2 + i] += by_range[i];
      sent_sparse[first * 2 + i] += by_key[i];
    }
    for (std::size_t i = 0; i < 2; ++i) sent_sparse[first * 2 + i] += by_key[4 + i];
  }
  EXPECT_GT(of_dense.rows(), 0U);
  EXPECT_NE(sent_dense, given);
  std::vector<float> read = sent_dense;
  of_dense.add_to({0, 50}, 2, read);
  EXPECT_EQ(read, given);
  std::vector<std::uint64_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  read = sent_sparse;
  of_sparse.add_to(all, 2, read);
  EXPECT_EQ(read, given);
  const auto rest = of_dense.take();
  ASSERT_TRUE(rest);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(sent_dense[i] + rest->values[i], given[i]);
  EXPECT_FALSE(of_dense.take());
}

TEST(KeptBack, WhatIsNotANumberDoesNotWait) {
  KeptBack kept;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(kept.sift({.name = "s"}, std::vector<std::uint64_t>{1}, std::vector<float>{nan}, 9)[0]));
}

// ---- servers

TEST(ServerShard, AListOfRowsOfADenseTableIsARangeWithZerosBetween) {
  for (const char* policy : {"bsp", "async"}) {
    ShardBench bench(parse_policy(policy), 2);
    for (int worker = 0; worker < 2; ++worker) bench.open(worker, {.name = "w", .kind = kDense, .rows = 8, .width = 2});
    const std::vector<std::uint64_t> rows = {6, 1, 2};
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    for (int worker = 0; worker < 2; ++worker) {
      RequestHeader push = bench.next(worker, Verb::push);
      push.rows = RowNames::listed;
      push.count = rows.size();
      bench.say(worker, ShardBench::message(push, rows, values));
      EXPECT_EQ(bench.reply(worker, push.sequence).header.status, Status::done);
    }
    bench.push(0, {1, 2}, {100, 100});
    bench.clock(0, 1);
    bench.clock(1, 1);
    EXPECT_EQ(bench.values(0, bench.pull(0, {0, 8}, 1)),
              (std::vector<float>{0, 0, 106, 108, 10, 12, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0}))
        << policy;
  }
}

TEST(ServerShard, AListOfRowsThatADenseTableHasNotIsRefused) {
  ShardBench bench(parse_policy("async"));
  bench.open(0, {.name = "w", .kind = kDense, .rows = 8});
  bench.open(0, {.name = "m", .kind = kDense, .rows = 8, .rule = "momentum:0.1"});
  const auto list = [&](std::uint32_t table, std::uint64_t row) {
    RequestHeader push = bench.next(0, Verb::push);
    push.rows = RowNames::listed;
    push.table = table;
    push.count = 1;
    bench.say(0, ShardBench::message(push, {&row, 1}, std::vector<float>{1}));
    return std::string(bench.reply(0, push.sequence).sentence);
  };
  EXPECT_EQ(list(0, 7), "");
  EXPECT_NE(list(0, 8).find("row 8 of table 'w' is not here"), std::string::npos);
  EXPECT_NE(list(1, 7).find("only with the rule add"), std::string::npos);
}

// ---- workers

// What two workers leave in a table after some steps of which most rows' changes are zeros, as bits.
std::vector<std::uint32_t> bits_of_run(const char* policy, int servers, bool zeros, bool sparse, std::uint64_t* bytes) {
  const TestJob job{.workers = 2, .servers = servers, .policy = parse_policy(policy)};
  std::vector<float> end(600);
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    const TableSpec spec = sparse ? TableSpec{.name = "t", .width = 2, .init = "normal:1"}
                                  : TableSpec{.name = "t", .kind = kDense, .rows = 300, .width = 2};
    Table table = session.open(spec, {.zeros = zeros});
    std::vector<std::uint64_t> keys(300);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i * 77;
    Random random(5, static_cast<std::uint64_t>(endpoint.rank()));
    std::vector<float> values(600);
    if (endpoint.rank() == 0 && !sparse) table.set(RowRange{0, 300}, std::vector<float>(600, -0.0F)).wait();
    for (int step = 0; step < 20; ++step) {
      std::vector<float> changes(600);
      for (std::size_t i = 0; step % 5 != 4 && i < 40; ++i)
        changes[random.below(600)] = static_cast<float>(random.uniform() - 0.5);
      sparse ? table.get(keys, values) : table.get({0, 300}, values);
      sparse ? table.inc(keys, changes) : table.inc({0, 300}, changes);
      session.clock();
    }
    sparse ? table.get(keys, values) : table.get({0, 300}, values);
    if (endpoint.rank() == 0) {
      end = values;
      *bytes = session.counters().bytes_pushed;
      EXPECT_EQ(session.counters().unsent_rows > 0, zeros);
    }
  });
  std::vector<std::uint32_t> bits;
  for (const float value : end) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST(Table, ZerosThatAreNotSentLeaveTheSameBitsAndFewerBytesUnderBsp) {
  for (const bool sparse : {false, true}) {
    std::uint64_t all = 0;
    const auto expected = bits_of_run("bsp", 1, false, sparse, &all);
    for (const int servers : {1, 2, 3}) {
      std::uint64_t filtered = 0;
      EXPECT_EQ(bits_of_run("bsp", servers, true, sparse, &filtered), expected) << servers << sparse;
      EXPECT_LT(filtered, all / 2);
    }
  }
}

TEST(Table, SmallIncsAreKeptBackReadByTheirWorkerAndSentInTheEnd) {
  for (const char* policy : {"ssp:1", "essp:1", "async"}) {
    const TestJob job{.workers = 2, .servers = 2, .policy = parse_policy(policy)};
    std::vector<float> last(3);
    run_job(job, [&](Session& session, Endpoint& endpoint) {
      const FilterOptions filter{.threshold = 2.5F, .flush_every = 1000};
      Table dense = session.open({.name = "d", .kind = kDense, .rows = 100}, filter);
      Table sparse = session.open({.name = "s"}, filter);
      const std::vector<std::uint64_t> keys = {7, 1ULL << 60};
      std::vector<float> rows(100);
      std::vector<float> found(2);
      const auto own = static_cast<std::uint64_t>(endpoint.rank());
      for (int step = 1; step <= 8; ++step) {
        const std::vector<float> one = {1};
        dense.inc({own, own + 1}, one);
        sparse.inc(std::span(keys).subspan(own, 1), one);
        dense.get({0, 100}, rows);
        sparse.get(keys, found);
        ASSERT_EQ(rows[own], static_cast<float>(step)) << policy;
        ASSERT_EQ(found[own], static_cast<float>(step)) << policy;
        const int of_other = static_cast<int>(rows[1 - own]);  // what has become significant, or all once it has left
        EXPECT_TRUE(of_other % 3 == 0 || of_other == 8) << policy << ": " << of_other;
        session.clock();
      }
      EXPECT_EQ(session.counters().kept_rows, 2 * 6U);  // at 3 and 6 they were sent
      session.leave();
      if (endpoint.rank() != 0) return;
      do {  // until the other has left too
        dense.get_latest({0, 100}, rows);
      } while (rows[1] != 8);
      EXPECT_EQ(rows[0], 8);
    });
  }
}

TEST(ServerHistory, WhatAFilterKeepsBackIsLateByNoMoreThanItsClocks) {
  for (const char* policy : {"ssp:1", "essp:0"}) {
    TestJob job{.workers = 3, .servers = 2, .policy = parse_policy(policy)};
    job.filter = {.threshold = 100, .flush_every = 3};
    Policy late = job.policy;
    late.number += 2;
    bool ever_late = false;
    for (std::uint64_t seed = 0; seed < 40 && !testing::Test::HasFailure(); ++seed) {
      std::vector<History> histories(3);
      const SimReport report =
          run_sim({.ranks = 5, .seed = seed, .faults = Faults::random_delays(seed, 5)}, [&](Endpoint& endpoint) {
            server_test::run_rank(job, endpoint, [&](Session& session, Endpoint& own) {
              History& history = histories[static_cast<std::size_t>(own.rank())];
              server_test::work(job, session, own, 9, [&](Event event) { history.push_back(std::move(event)); });
            });
          });
      ASSERT_EQ(report.stopped, "") << report.describe();
      report.rethrow();
      const History all = merge_histories(std::move(histories));
      const auto broken = check_history(late, all, job.workers);
      EXPECT_FALSE(broken) << policy << ": " << broken->sentence;
      ever_late |= check_history(job.policy, all, job.workers).has_value();
    }
    EXPECT_TRUE(ever_late) << policy;
  }
}

}  // namespace
}  // namespace paceline
