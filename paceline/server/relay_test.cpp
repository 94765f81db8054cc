// Jobs with relays: what workers read, what reaches the servers, who hears of a death.
#include "paceline/server/relay.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstdlib>

#include "paceline/core/error.hpp"
#include "paceline/server/server_history_support.hpp"
#include "paceline/server/server_tree.hpp"

namespace paceline {
namespace {

using server_test::TestJob;

constexpr TableSpec::Kind kDense = TableSpec::Kind::dense;
using Body = std::function<void(Session&, Endpoint&)>;

// A rank's part in a job with relays. Returns the bytes that it sent and received.
std::uint64_t run_in_tree(const ServerTree& tree, Endpoint& endpoint, const Body& body) {
  const Rank rank = endpoint.rank();
  if (is_server(tree, rank)) {
    serve(endpoint, serve_options(tree, rank));
  } else if (is_relay(tree, rank)) {
    serve_relay(endpoint, relay_options(tree, rank));
  } else {
    Session session(endpoint, session_options(tree, rank));
    body(session, endpoint);
    session.leave();
  }
  return endpoint.counters().bytes_received + endpoint.counters().bytes_sent;
}

int ranks_of(const ServerTree& tree) {
  return static_cast<int>(tree.servers.size() + tree.workers.size() + tree.branches.size());
}

void run_tree(const ServerTree& tree, const Body& body) {
  check(tree);
  run_ranks(ranks_of(tree), [&](Endpoint& endpoint) { run_in_tree(tree, endpoint, body); });
}

// Workers 0 to w - 1, then servers, then relays; each relay has the workers that are its own modulo the number of them.
ServerTree tree_of(int workers, int servers, int relays, const char* policy) {
  ServerTree tree{.policy = parse_policy(policy)};
  for (Rank rank = 0; rank < workers; ++rank) tree.workers.push_back(rank);
  for (Rank rank = workers; rank < workers + servers; ++rank) tree.servers.push_back(rank);
  for (int relay = 0; relay < relays; ++relay) {
    RelayBranch& branch = tree.branches.emplace_back();
    branch.relay = workers + servers + relay;
    for (Rank rank = 0; rank < workers; ++rank) {
      if (rank % relays == relay) branch.children.push_back(rank);
    }
  }
  return tree;
}

// Some workers behind relays, some not, relays behind relays.
ServerTree random_tree(std::uint64_t seed, const char* policy) {
  Random random(seed, 5);
  const int workers = 1 + static_cast<int>(random.below(5));
  const int servers = 1 + static_cast<int>(random.below(3));
  ServerTree tree = tree_of(workers, servers, 0, policy);
  const int relays = 1 + static_cast<int>(random.below(3));
  for (int relay = 0; relay < relays; ++relay) tree.branches.push_back({workers + servers + relay, {}});
  for (const Rank worker : tree.workers) {
    const auto place = random.below(static_cast<std::uint64_t>(relays) + 1);
    if (place < tree.branches.size()) tree.branches[place].children.push_back(worker);
  }
  for (std::size_t relay = 1; relay < tree.branches.size(); ++relay) {
    if (random.below(2) == 0) tree.branches[random.below(relay)].children.push_back(tree.branches[relay].relay);
  }
  for (RelayBranch& branch : tree.branches) {  // nobody: a chain down to one that has somebody is not worth a test
    if (branch.children.empty()) return random_tree(seed + 1'000'000, policy);
  }
  return tree;
}

TEST(ServerTree, OneRankHasOnePlace) {
  const ServerTree good = tree_of(4, 1, 2, "bsp");
  check(good);
  const auto refused = [&](const std::function<void(ServerTree&)>& spoil) {
    ServerTree tree = good;
    spoil(tree);
    try {
      check(tree);
    } catch (const Error& error) {
      return error.code() == Code::invalid;
    }
    return false;
  };
  EXPECT_TRUE(refused([](ServerTree& tree) { tree.servers.clear(); }));
  EXPECT_TRUE(refused([](ServerTree& tree) { tree.workers.push_back(0); }));
  EXPECT_TRUE(refused([](ServerTree& tree) { tree.branches[0].children.push_back(1); }));
  EXPECT_TRUE(refused([](ServerTree& tree) { tree.branches[0].children.push_back(4); }));
  EXPECT_TRUE(refused([](ServerTree& tree) { tree.branches[0].children = {6}, tree.branches[1].children = {5}; }));
  EXPECT_TRUE(refused([](ServerTree& tree) { tree.branches[1].children.clear(); }));
}

TEST(ServerTree, TheWorkersOfAHostShareARelayOfThatHostIfThereIsOne) {
  const std::vector<int> hosts = {0, 0, 1, 1, 2, 9, 1, 0};
  const std::vector<Rank> workers = {0, 1, 2, 3, 4};
  const std::vector<Rank> relays = {6, 7};
  const auto branches = relays_by_host(hosts, workers, relays);
  ASSERT_EQ(branches.size(), 2U);
  EXPECT_EQ(branches[0].relay, 6);
  EXPECT_EQ(branches[0].children, (std::vector<Rank>{2, 3}));
  EXPECT_EQ(branches[1].children, (std::vector<Rank>{0, 1}));
  const std::vector<Rank> far = {5};
  EXPECT_EQ(relays_by_host(hosts, workers, far)[0].children, (std::vector<Rank>{0, 1}));
}

// ---- what reads contain

// What the workers of a run in virtual time read, in a tree and with delays that follow from the seed.
void expect_promises_kept(std::uint64_t seed) {
  const char* const policies[] = {"bsp", "ssp:0", "ssp:1", "ssp:3", "essp:0", "essp:2"};
  const ServerTree tree = random_tree(seed, policies[seed % std::size(policies)]);
  check(tree);
  const int workers = static_cast<int>(tree.workers.size());
  std::vector<History> histories(tree.workers.size());
  const SimReport report =
      run_sim({.ranks = ranks_of(tree), .seed = seed, .faults = Faults::random_delays(seed, ranks_of(tree))},
              [&](Endpoint& endpoint) {
                run_in_tree(tree, endpoint, [&](Session& session, Endpoint& own) {
                  History& history = histories[static_cast<std::size_t>(own.rank())];
                  server_test::work({.workers = workers}, session, own, 6,
                                    [&](Event event) { history.push_back(std::move(event)); });
                  EXPECT_EQ(session.staleness().violations(), 0);
                });
              });
  ASSERT_EQ(report.stopped, "") << "seed " << seed << ": " << report.describe();
  report.rethrow();
  const auto broken = check_history(tree.policy, merge_histories(std::move(histories)), workers);
  EXPECT_FALSE(broken) << tree.policy.text() << ", seed " << seed << ": " << broken->sentence;
}

TEST(ServerHistory, EveryReadBehindRelaysKeepsThePolicysPromise) {
  const std::uint64_t seeds = std::getenv("PACELINE_FULL") == nullptr ? 60 : 10'000;
  for (std::uint64_t seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) expect_promises_kept(seed);
}

// A request that comes while the relay looks for answers of its parents: it slept over it, and all waited.
TEST(Relay, DoesNotSleepOverARequestThatComesWhileItLooksAtItsParents) { expect_promises_kept(192); }

TEST(Relay, AWorkerReadsItsOwnIncsAtOnceAndInTheEndAllOfThem) {
  for (const char* policy : {"bsp", "ssp:2", "essp:1"}) {
    run_tree(tree_of(4, 2, 2, policy), [&](Session& session, Endpoint& endpoint) {
      Table table = session.open({.name = "s", .width = 2});
      const auto own = static_cast<std::uint64_t>(endpoint.rank());
      std::vector<std::uint64_t> keys(40);  // a key of its own, many that all have
      for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i == 0 ? own << 40 : i * 77;
      std::vector<float> changes(80, 1);
      std::vector<float> found(80);
      for (int step = 1; step <= 12; ++step) {
        table.inc(keys, changes);
        table.get(keys, found);
        ASSERT_EQ(found[1], static_cast<float>(step)) << policy;
        ASSERT_GE(found[2], static_cast<float>(step)) << policy;
        ASSERT_LE(found[2], 48) << policy;
        session.clock();
      }
      session.leave();
      do {
        table.pull(keys, found).wait();
        endpoint.idle(endpoint.clock().after(std::chrono::microseconds(100)));
      } while (found[2] != 48);
      EXPECT_EQ(found[79], 48);
    });
  }
}

// ---- bits

std::vector<std::uint32_t> bits_after(const ServerTree& tree, const TableSpec& spec) {
  std::vector<float> end(101);
  run_tree(tree, [&](Session& session, Endpoint& endpoint) {
    Table table = session.open(spec);
    if (endpoint.rank() == 0) table.set(RowRange{0, 101}, std::vector<float>(101, 0.25F)).wait();
    Random random(9, static_cast<std::uint64_t>(endpoint.rank()));
    std::vector<float> values(101);
    for (int step = 0; step < 15; ++step) {
      std::vector<float> gradient(101);
      for (float& element : gradient) element = static_cast<float>(random.uniform() - 0.5);
      const std::uint64_t half = 20 + random.below(40);
      TablePending first = table.push({0, half}, std::span(gradient).first(half));
      TablePending second = table.push({half, 101}, std::span(gradient).subspan(half));
      if (random.below(2) == 0) endpoint.progress();
      first.wait();
      second.wait();
      session.clock();
      table.get({0, 101}, values);
    }
    if (endpoint.rank() == 0) end = values;
  });
  std::vector<std::uint32_t> bits;
  for (const float value : end) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST(Relay, UnderBspTheBitsAreTheSameForAnyNumberOfServersAndNearThoseWithoutRelays) {
  for (const char* rule : {"add", "sgd:0.1", "momentum:0.1", "adam:0.01"}) {
    const TableSpec spec{.name = "w", .kind = kDense, .rows = 101, .rule = rule};
    const auto expected = bits_after(tree_of(5, 1, 2, "bsp"), spec);
    for (const int servers : {1, 2, 3}) EXPECT_EQ(bits_after(tree_of(5, servers, 2, "bsp"), spec), expected) << rule;
    const auto flat = bits_after(tree_of(5, 2, 0, "bsp"), spec);
    for (std::size_t i = 0; i < flat.size(); ++i)
      ASSERT_NEAR(std::bit_cast<float>(flat[i]), std::bit_cast<float>(expected[i]), 1e-4) << rule;
  }
}

// ---- bytes

// That the servers send and receive, in virtual time.
std::uint64_t bytes_at_servers(const ServerTree& tree, bool sparse) {
  std::uint64_t bytes = 0;
  const SimReport report = run_sim({.ranks = ranks_of(tree), .seed = 3}, [&](Endpoint& endpoint) {
    const std::uint64_t moved = run_in_tree(tree, endpoint, [&](Session& session, Endpoint& own) {
      const std::uint64_t rows = 1500;
      Table table =
          session.open(sparse ? TableSpec{.name = "t"} : TableSpec{.name = "t", .kind = kDense, .rows = rows});
      std::vector<std::uint64_t> keys(rows);
      for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i * 3;
      std::vector<float> values(rows);
      const std::vector<float> changes(rows, static_cast<float>(own.rank() + 1));
      for (int step = 0; step < 20; ++step) {
        sparse ? table.get(keys, values) : table.get({0, rows}, values);
        sparse ? table.inc(keys, changes) : table.inc({0, rows}, changes);
        session.clock();
      }
    });
    if (is_server(tree, endpoint.rank())) bytes += moved;
  });
  report.rethrow();
  EXPECT_EQ(report.stopped, "") << report.describe();
  return bytes;
}

TEST(Relay, TheBytesOfAServerAreDividedByTheChildrenOfARelay) {
  for (const char* policy : {"bsp", "ssp:1"}) {
    for (const bool sparse : {false, true}) {
      const auto without = bytes_at_servers(tree_of(4, 1, 0, policy), sparse);
      const auto with = bytes_at_servers(tree_of(4, 1, 1, policy), sparse);
      const auto with_two = bytes_at_servers(tree_of(4, 1, 2, policy), sparse);
      // A quarter, but for the first steps, in which each asks for itself.
      EXPECT_LT(static_cast<double>(with), 0.33 * static_cast<double>(without)) << policy << sparse;
      EXPECT_LT(static_cast<double>(with_two), 0.58 * static_cast<double>(without)) << policy << sparse;
    }
  }
}

// ---- refusals and deaths

TEST(Relay, WhatItCannotPromiseIsRefused) {
  for (const char* policy : {"async", "softsync:2"}) {
    EXPECT_THROW(
        run_ranks(1,
                  [&](Endpoint& endpoint) {
                    const ServerTree tree{
                        .servers = {1}, .workers = {2}, .branches = {{0, {2}}}, .policy = parse_policy(policy)};
                    serve_relay(endpoint, relay_options(tree, 0));
                  }),
        Error)
        << policy;
  }
  run_tree(tree_of(2, 1, 1, "ssp:1"), [](Session& session, Endpoint&) {
    try {
      session.open({.name = "w", .kind = kDense, .rows = 4, .rule = "sgd:0.1"});
      ADD_FAILURE() << "sgd was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("must see its own updates"), std::string::npos) << error.what();
    }
    Table table = session.open({.name = "t", .kind = kDense, .rows = 4});
    std::vector<float> rows(4, 1);
    table.inc({0, 4}, rows);
    EXPECT_THROW(session.open({.name = "t", .kind = kDense, .rows = 5}), Error);
    session.clock();
    table.get({0, 4}, rows);
    EXPECT_GE(rows[3], 1);
  });
}

TEST(Relay, UnderBspAllWorkersOfTheJobHearWhoDiedAndOtherwiseTheyGoOn) {
  for (const char* policy : {"bsp", "ssp:2", "essp:1"}) {
    const ServerTree tree = tree_of(4, 2, 2, policy);
    const bool all_wait = tree.policy.kind == Policy::Kind::bsp;
    std::atomic<int> told = 0;
    run_ranks(ranks_of(tree), [&](Endpoint& endpoint) {
      const Rank rank = endpoint.rank();
      if (is_server(tree, rank)) return serve(endpoint, serve_options(tree, rank));
      if (is_relay(tree, rank)) return serve_relay(endpoint, relay_options(tree, rank));
      Session session(endpoint, session_options(tree, rank));
      Table table = session.open({.name = "w", .kind = kDense, .rows = 8});
      std::vector<float> rows(8);
      try {
        for (int step = 0; step < 40; ++step) {
          if (rank == 1 && step == 10) return;  // without a word
          table.get({0, 8}, rows);
          table.inc({0, 8}, std::vector<float>(8, 1));
          session.clock();
        }
        session.leave();
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
        ++told;
      }
    });
    EXPECT_EQ(told, all_wait ? 3 : 0) << policy;
  }
}

}  // namespace
}  // namespace paceline
