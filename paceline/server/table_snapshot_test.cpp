// Snapshots of tables over several servers, among threads and in virtual time, while workers go on.
#include "paceline/server/table_snapshot.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "paceline/core/error.hpp"
#include "paceline/server/relay.hpp"
#include "paceline/server/serve.hpp"
#include "paceline/server/server_history_support.hpp"

namespace paceline {
namespace {

using server_test::run_job;
using server_test::run_rank;
using server_test::TestJob;
using server_test::work;

std::vector<TablePiece> all_of(TableSnapshot snapshot) {
  std::vector<TablePiece> pieces;
  while (auto piece = snapshot.next()) pieces.push_back(std::move(*piece));
  return pieces;
}

std::vector<float> gradient(std::size_t floats, int step) {
  std::vector<float> values(floats);
  for (std::size_t i = 0; i < floats; ++i)
    values[i] = 0.01F * static_cast<float>((i * 31 + static_cast<std::size_t>(step) * 17) % 23) - 0.1F;
  return values;
}

struct Tables {
  Table dense;
  Table sparse;

  explicit Tables(Session& session)
      : dense(session.open({.name = "d", .kind = TableSpec::Kind::dense, .rows = 999, .rule = "adam:0.1"})),
        sparse(session.open({.name = "s", .width = 5, .rule = "adam:0.1", .init = "normal:0.1"})) {}

  static std::vector<std::uint64_t> keys() {
    std::vector<std::uint64_t> keys(400);
    std::iota(keys.begin(), keys.end(), 1000);
    return keys;
  }
  void train(int step) {
    dense.push(RowRange{0, 999}, gradient(999, step)).wait();
    // Some rows have more steps. Whole cache lines, as servers have them: what is left of a range of other length is
    // computed one by one, with other last bits.
    dense.push(RowRange{96, 208}, gradient(112, step + 1)).wait();
    const auto all = keys();
    sparse
        .push(std::span(all).first(static_cast<std::size_t>(100 * (step % 4 + 1))),
              gradient(static_cast<std::size_t>(500 * (step % 4 + 1)), step))
        .wait();
  }
  std::vector<float> read() {
    std::vector<float> values(999 + 2000);
    dense.pull(RowRange{0, 999}, std::span(values).first(999)).wait();
    sparse.pull(keys(), std::span(values).subspan(999)).wait();
    return values;
  }
};

TEST(TableSnapshot, GoesOnOnAnyNumberOfServersBitForBit) {
  std::vector<float> straight;
  run_job({.policy = parse_policy("async")}, [&](Session& session, Endpoint&) {
    Tables tables(session);
    for (int step = 0; step < 8; ++step) tables.train(step);
    straight = tables.read();
  });
  for (const int before : {1, 2, 5}) {
    for (const int after : {1, 3, 4}) {
      std::vector<TablePiece> dense, sparse;
      run_job({.servers = before, .policy = parse_policy("async")}, [&](Session& session, Endpoint&) {
        Tables tables(session);
        for (int step = 0; step < 5; ++step) tables.train(step);
        dense = all_of(tables.dense.snapshot());
        sparse = all_of(tables.sparse.snapshot());
      });
      run_job({.servers = after, .policy = parse_policy("async")}, [&](Session& session, Endpoint&) {
        Tables tables(session);
        for (const TablePiece& piece : dense) tables.dense.restore(piece).wait();
        for (const TablePiece& piece : sparse) tables.sparse.restore(piece).wait();
        for (int step = 5; step < 8; ++step) tables.train(step);
        EXPECT_EQ(tables.read(), straight) << before << " servers, then " << after;
      });
    }
  }
}

// Every push adds one to all rows, so that rows of one moment are alike.
void expect_moments(const TestJob& job, const TableSpec& spec, const std::vector<TablePiece>& pieces, float least) {
  std::map<int, float> of_server;
  for (const TablePiece& piece : pieces) {
    for (std::uint64_t row = 0; row < piece.size(); ++row) {
      const int server = server_of_row(spec.rows, spec.width, job.servers, piece.range.first + row);
      const float value = piece.rows.values[row];
      EXPECT_GE(value, least);
      EXPECT_EQ(of_server.try_emplace(server, value).first->second, value) << "server " << server;
    }
  }
  EXPECT_EQ(of_server.size(), static_cast<std::size_t>(job.servers));
}

// Worker 0 reads a snapshot slowly, the others make their steps meanwhile, as the policy lets them.
TEST(TableSnapshot, IsOfOneMomentOnEachServerWhileOthersPushInVirtualTime) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const TestJob job{.workers = 3, .servers = 1 + static_cast<int>(seed % 3), .policy = parse_policy("async")};
    const TableSpec spec{.name = "d", .kind = TableSpec::Kind::dense, .rows = 40'000};
    const std::vector<float> ones(spec.rows, 1);
    const int ranks = job.workers + job.servers;
    const SimReport report =
        run_sim({.ranks = ranks, .seed = seed, .faults = Faults::random_delays(seed, ranks)}, [&](Endpoint& endpoint) {
          run_rank(job, endpoint, [&](Session& session, Endpoint& own) {
            Table table = session.open(spec);
            for (int step = 0; step < 6; ++step) {
              table.inc({0, spec.rows}, ones);
              session.clock();
              if (own.rank() == 0 && step % 2 == 1)
                expect_moments(job, spec, all_of(table.snapshot()), static_cast<float>(step) + 1);
            }
          });
        });
    EXPECT_EQ(report.stopped, "") << report.describe();
    report.rethrow();
  }
}

TEST(TableSnapshot, UnderBspIsTheSameStepOnAllServers) {
  const TestJob job{.workers = 3, .servers = 3, .policy = parse_policy("bsp")};
  const TableSpec spec{.name = "d", .kind = TableSpec::Kind::dense, .rows = 1000};
  const std::vector<float> ones(spec.rows, 1);
  run_job(job, [&](Session& session, Endpoint& endpoint) {
    Table table = session.open(spec);
    std::vector<float> values(spec.rows);
    for (int step = 0; step < 20; ++step) {
      table.get({0, spec.rows}, values);
      table.inc({0, spec.rows}, ones);
      session.clock();
      if (endpoint.rank() != step % 3 || step == 19) continue;  // those who have left count as infinitely far
      TableSnapshot snapshot = table.snapshot();
      EXPECT_EQ(snapshot.contained(), std::vector<std::int64_t>(3, step + 1));
      while (const auto piece = snapshot.next()) {
        for (const float value : piece->rows.values) ASSERT_EQ(value, 3.0F * static_cast<float>(step + 1));
      }
    }
  });
}

// What workers read is as the policy promises, whoever has a snapshot open and however long.
TEST(TableSnapshot, ThatStaysOpenChangesNoHistory) {
  for (const char* policy : {"bsp", "ssp:1", "essp:2", "async"}) {
    const TestJob job{.workers = 3, .servers = 2, .policy = parse_policy(policy)};
    std::vector<History> histories(3);
    run_job(job, [&](Session& session, Endpoint& endpoint) {
      Table table = session.open({.name = "updates", .kind = TableSpec::Kind::dense, .rows = 3});
      std::vector<TableSnapshot> open;
      open.push_back(table.snapshot());
      History& history = histories[static_cast<std::size_t>(endpoint.rank())];
      work(job, session, endpoint, 60, [&](Event event) { history.push_back(std::move(event)); });
      float sum = 0;  // at its moment this worker had not pushed
      for (const TablePiece& piece : all_of(std::move(open.back()))) {
        for (std::uint64_t row = 0; row < piece.size(); ++row)
          sum += piece.range.first + row == static_cast<std::uint64_t>(endpoint.rank()) ? piece.rows.values[row] : 0;
      }
      EXPECT_EQ(sum, 0);
    });
    const auto broken = check_history(job.policy, merge_histories(std::move(histories)), job.workers);
    EXPECT_FALSE(broken) << policy << ": " << broken->sentence;
  }
}

TEST(TableSnapshot, ThatIsDroppedEndsAndTheNextOneBegins) {
  run_job({.servers = 3, .policy = parse_policy("async")}, [&](Session& session, Endpoint&) {
    Table table = session.open({.name = "d", .kind = TableSpec::Kind::dense, .rows = 200'000});
    for (int i = 0; i < 10; ++i) {
      TableSnapshot snapshot = table.snapshot();
      if (i % 2 == 0) {
        EXPECT_TRUE(snapshot.next());
      }
    }
    session.flush();
    EXPECT_EQ(all_of(table.snapshot()).size(), 6u);  // at most 65,536 rows each, of some 66,667 on a server
  });
}

TEST(TableSnapshot, OfATableWhoseBucketsHaveMovedHasEveryRowOnceAndGoesOnElsewhere) {
  const TableSpec spec{.name = "s", .width = 2, .rule = "adagrad:0.1", .balance_every = 2};
  std::vector<std::uint64_t> keys(600), hot;
  std::iota(keys.begin(), keys.end(), 0);
  for (const std::uint64_t key : keys) {
    if (server_of_key(key, 3) == 0) hot.push_back(key);
  }
  for (const char* policy : {"bsp", "ssp:1"}) {
    std::vector<TablePiece> pieces;
    std::vector<float> values(2 * keys.size());
    run_job({.workers = 2, .servers = 3, .policy = parse_policy(policy)}, [&](Session& session, Endpoint& endpoint) {
      Table table = session.open(spec);
      std::vector<float> read(2 * keys.size());
      for (int step = 0; step < 9; ++step) {
        table.push(step == 0 ? keys : hot, gradient(2 * (step == 0 ? keys : hot).size(), step)).wait();
        session.clock();
        table.get(keys, read);
      }
      EXPECT_GT(session.counters().moved_buckets, 0u);
      if (endpoint.rank() != 0) return;
      pieces = all_of(table.snapshot());
    });
    std::map<std::uint64_t, int> seen;
    for (const TablePiece& piece : pieces) {
      for (const std::uint64_t key : piece.rows.keys) ++seen[key];
    }
    EXPECT_EQ(seen.size(), keys.size()) << policy;
    for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
    run_job({.servers = 2, .policy = parse_policy(policy)}, [&](Session& session, Endpoint&) {
      Table table = session.open(spec);
      for (const TablePiece& piece : pieces) table.restore(piece).wait();
      std::vector<float> read(2 * keys.size());
      table.pull(keys, read).wait();
      for (const TablePiece& piece : pieces) {
        for (std::size_t row = 0; row < piece.rows.keys.size(); ++row)
          EXPECT_EQ(read[2 * piece.rows.keys[row]], piece.rows.values[2 * row]);
      }
    });
  }
}

TEST(TableSnapshot, APieceOfAnotherTableIsRefusedBeforeItIsSent) {
  run_job({.policy = parse_policy("async")}, [&](Session& session, Endpoint&) {
    Table table = session.open({.name = "d", .kind = TableSpec::Kind::dense, .rows = 10, .rule = "momentum:0.1"});
    EXPECT_THROW(table.restore({.range = {0, 1}, .rows = {.keys = {}, .values = {1}}}), Error);
  });
}

TEST(TableSnapshot, BehindARelayIsRefused) {
  run_ranks(3, [](Endpoint& endpoint) {
    const Policy policy = parse_policy("bsp");
    if (endpoint.rank() == 2) return serve(endpoint, {.workers = {1}, .policy = policy, .leaves = 1});
    if (endpoint.rank() == 1)
      return serve_relay(endpoint, {.children = {0}, .parent = {.servers = {2}, .policy = policy}});
    Session session(endpoint, {.servers = {1}, .policy = policy});
    Table table = session.open({.name = "d", .kind = TableSpec::Kind::dense, .rows = 10});
    try {
      table.snapshot();
      ADD_FAILURE() << "a relay has no snapshots";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("a relay keeps no rows"), std::string::npos) << error.what();
    }
    session.leave();
  });
}

}  // namespace
}  // namespace paceline
