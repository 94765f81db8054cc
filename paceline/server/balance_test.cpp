// Load that servers share anew: which buckets move, what a server does while they do, and what workers read meanwhile.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <numeric>

#include "paceline/core/error.hpp"
#include "paceline/server/bucket_share.hpp"
#include "paceline/server/server_history_support.hpp"
#include "paceline/server/shard_test_support.hpp"

namespace paceline {
namespace {

using server_test::ShardBench;
using server_test::TestJob;

// ---- which buckets

std::vector<std::uint64_t> loads_of_servers(const BucketOwners& owners, std::span<const std::uint64_t> loads,
                                            int servers) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(servers));
  for (std::size_t bucket = 0; bucket < owners.size(); ++bucket) sums.at(owners[bucket]) += loads[bucket];
  return sums;
}

// All loads of six buckets out of a few sizes, on two to four servers.
TEST(BucketMoves, OfAllSmallCasesTheBusiestServerIsNearTheMeanOrNoSingleMoveHelps) {
  const std::uint64_t sizes[] = {0, 1, 3, 10};
  for (int servers = 2; servers <= 4; ++servers) {
    BucketOwners before(6);
    for (std::size_t bucket = 0; bucket < 6; ++bucket) before[bucket] = bucket < 4 ? 0 : 1;
    for (int which = 0; which < 4096; ++which) {
      std::vector<std::uint64_t> loads(6);
      for (std::size_t bucket = 0; bucket < 6; ++bucket) loads[bucket] = sizes[which >> (2 * bucket) & 3];
      const auto all = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0});
      const auto heavy = [&](const std::vector<std::uint64_t>& of) {
        return 4 * static_cast<std::uint64_t>(servers) * *std::max_element(of.begin(), of.end()) > 5 * all;
      };
      const auto at_first = loads_of_servers(before, loads, servers);
      const BucketOwners after = balanced_owners(before, loads, servers);
      const auto in_the_end = loads_of_servers(after, loads, servers);
      if (!heavy(at_first)) {
        EXPECT_EQ(after, before);
      }
      EXPECT_LE(*std::max_element(in_the_end.begin(), in_the_end.end()),
                *std::max_element(at_first.begin(), at_first.end()));
      if (!heavy(in_the_end)) continue;
      const auto busiest = std::max_element(in_the_end.begin(), in_the_end.end());
      const auto idlest = *std::min_element(in_the_end.begin(), in_the_end.end());
      for (std::size_t bucket = 0; bucket < 6; ++bucket) {
        if (after[bucket] != busiest - in_the_end.begin() || loads[bucket] == 0) continue;
        ASSERT_GE(loads[bucket], *busiest - idlest) << servers << " servers, case " << which;
      }
    }
  }
}

TEST(BucketMoves, AServerWithOneHotKeyKeepsItAndGivesAwayTheRest) {
  std::vector<std::uint64_t> loads(kBuckets, 10);
  loads[4] = 100'000;
  const BucketOwners owners = balanced_owners(first_owners(4), loads, 4);
  EXPECT_EQ(owners[4], 0);
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 0), 1);
}

TEST(BucketMoves, WhatTheySayToEachOtherIsCheckedBeforeItIsBelieved) {
  const BucketOwners owners = first_owners(3);
  EXPECT_EQ(decode_owners(encode_owners(owners), 3), owners);
  EXPECT_FALSE(decode_owners(encode_owners(owners), 2));
  EXPECT_FALSE(decode_owners(encode_owners(owners).substr(1), 3));
  EXPECT_FALSE(decode_loads("7"));
  HandedRows handed{.table = "t", .step = 7, .last = true, .rows = {}};
  handed.rows = {.keys = {1, 2}, .values = {1, 2, 3, 4}, .state = {5, 6}, .steps = {9, 9}};
  const auto message = encode(handed);
  const HandedRows again = decode_handed_rows(message);
  EXPECT_EQ(again.table, "t");
  EXPECT_EQ(again.step, 7);
  EXPECT_TRUE(again.last);
  EXPECT_EQ(again.rows.keys, handed.rows.keys);
  EXPECT_EQ(again.rows.values, handed.rows.values);
  EXPECT_EQ(again.rows.state, handed.rows.state);
  EXPECT_EQ(again.rows.steps, handed.rows.steps);
  for (std::size_t size = 0; size < message.size(); ++size)
    EXPECT_THROW(decode_handed_rows(std::span(message).first(size)), Error) << size;
}

TEST(BucketShare, ABucketThatHasStillToComeDoesNotGoOn) {
  BucketOwners at_two = first_owners(2);
  BucketOwners at_four = at_two;
  at_two[0] = 1;   // from server 0 to server 1
  at_four[1] = 0;  // and another back
  BucketShare share(1, 2);
  share.adopt(2, at_two);
  share.adopt(2, at_four);  // what the next worker says does not count
  share.adopt(4, at_four);
  EXPECT_TRUE(share.awaits_any());
  EXPECT_FALSE(share.take_due(4));
  share.arrive(0, 2);
  EXPECT_FALSE(share.awaits_any());
  EXPECT_FALSE(share.take_due(3));
  const auto due = share.take_due(4);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->step, 4);
  EXPECT_EQ(due->to[0], 0);
  EXPECT_EQ(due->to[1], 0);
  EXPECT_EQ(due->to[3], -1);
  EXPECT_FALSE(share.take_due(4));
}

TEST(BucketShare, RowsMayComeBeforeItIsSaidThatTheyWill) {
  BucketOwners owners = first_owners(2);
  owners[0] = 1;
  BucketShare share(1, 2);
  share.arrive(0, 5);
  share.adopt(5, owners);
  EXPECT_FALSE(share.awaits_any());
}

// ---- two servers, byte by byte

constexpr std::uint64_t kEvery = 2;

class TwoServers : public testing::Test {
 protected:
  explicit TwoServers(const char* policy = "ssp:3") {
    for (int index = 0; index < 2; ++index) {
      servers.push_back(
          std::make_unique<ServerShard>(ServerShardOptions{.place = {.index = index, .servers = 2, .workers = 2},
                                                           .policy = parse_policy(policy),
                                                           .reaches_servers = true},
                                        [](int, std::uint64_t) { return std::nullopt; }));
      for (int worker = 0; worker < 2; ++worker)
        say(index, worker, next(index, worker, Verb::open), {}, {},
            encode(TableSpec{.name = "s", .rule = "add", .balance_every = kEvery}));
    }
    while (server_of_key(key, 2) != 0) ++key;
    owners = first_owners(2);
    owners[bucket_of_key(key)] = 1;
  }
  RequestHeader next(int server, int worker, Verb verb, std::int64_t clock = 0) {
    return {.verb = verb, .sequence = ++sequences[server][worker], .clock = clock};
  }
  std::uint64_t say(int server, int worker, const RequestHeader& header, std::span<const std::uint64_t> keys = {},
                    std::span<const float> values = {}, std::string_view note = {}) {
    servers[static_cast<std::size_t>(server)]->handle(worker, ShardBench::message(header, keys, values, note));
    return header.sequence;
  }
  std::uint64_t push(int server, int worker, std::int64_t clock, float value) {
    RequestHeader header = next(server, worker, Verb::push, clock);
    header.rows = RowNames::listed;
    header.count = 1;
    return say(server, worker, header, {&key, 1}, {&value, 1});
  }
  std::uint64_t pull(int server, int worker, std::int64_t clock, std::int64_t required) {
    RequestHeader header = next(server, worker, Verb::pull, clock);
    header.rows = RowNames::listed;
    header.count = 1;
    header.required = required;
    return say(server, worker, header, {&key, 1});
  }
  void clock(int server, int worker, std::int64_t to) { say(server, worker, next(server, worker, Verb::clock, to)); }
  void adopt(int server, int worker, std::int64_t step) {
    say(server, worker, next(server, worker, Verb::adopt, step), {}, {}, encode_owners(owners));
  }
  // What server 0 hands over goes to server 1, as often as is said.
  std::size_t hand_over() {
    auto handed = servers[0]->take_handovers();
    for (const auto& message : handed) servers[static_cast<std::size_t>(message.server)]->take_rows(0, message.message);
    return handed.size();
  }
  // The value that a pull was answered with; nullopt: it has not been.
  std::optional<float> answer(int server, int worker, std::uint64_t sequence) {
    for (auto& each : servers[static_cast<std::size_t>(server)]->take_answers())
      answers[server].push_back(std::move(each));
    for (const auto& each : answers[server]) {
      if (each.worker != worker || each.sequence != sequence) continue;
      const TableReply reply = parse_reply(each.message);
      EXPECT_EQ(reply.header.status, Status::done) << reply.sentence;
      return reply.values.empty() ? 0 : reply.values[0];
    }
    return std::nullopt;
  }

  std::vector<std::unique_ptr<ServerShard>> servers;
  std::uint64_t sequences[2][2] = {};
  std::vector<ServerShard::Answer> answers[2];
  std::uint64_t key = 0;
  BucketOwners owners;
};

TEST_F(TwoServers, TheNewOneHoldsBackWhatNeedsRowsThatTheOldOneHasStill) {
  push(0, 0, 0, 1);
  push(0, 1, 0, 10);
  for (int server = 0; server < 2; ++server) {
    clock(server, 0, 2);
    adopt(server, 0, 2);
  }
  const auto pushed = push(1, 0, 2, 100);
  const auto read = pull(1, 0, 2, 0);
  clock(1, 0, 3);
  EXPECT_FALSE(answer(1, 0, pushed));
  EXPECT_FALSE(answer(1, 0, read));
  push(0, 1, 1, 1000);  // the slower worker is before the step in which the bucket moves
  EXPECT_EQ(hand_over(), 0U);
  clock(0, 1, 2);
  EXPECT_EQ(hand_over(), 1U);
  EXPECT_EQ(answer(1, 0, read), 1111);
  const auto of_other = pull(1, 1, 2, 3);  // must contain all before step 3: worker 0's clock has come to it
  EXPECT_FALSE(answer(1, 1, of_other));
  clock(1, 1, 3);
  EXPECT_EQ(answer(1, 1, of_other), 1111);
}

TEST_F(TwoServers, WhatIsHandedOverTwiceOrComesTwiceChangesNothing) {
  push(0, 0, 0, 1);
  for (int worker = 0; worker < 2; ++worker) {
    clock(0, worker, 2);
    adopt(0, worker, 2);
    clock(1, worker, 2);
    adopt(1, worker, 2);
  }
  const RequestHeader twice = [&] {
    RequestHeader header = next(1, 0, Verb::push, 2);
    header.rows = RowNames::listed;
    header.count = 1;
    return header;
  }();
  const float five = 5;
  for (int times = 0; times < 3; ++times) say(1, 0, twice, {&key, 1}, {&five, 1});
  EXPECT_EQ(hand_over(), 1U);
  EXPECT_EQ(hand_over(), 0U);
  say(1, 0, twice, {&key, 1}, {&five, 1});
  EXPECT_EQ(answer(1, 1, pull(1, 1, 2, 2)), 6);
}

TEST_F(TwoServers, WhoDiesOrLeavesWhileABucketMovesHoldsUpNobody) {
  push(0, 1, 0, 7);
  for (int server = 0; server < 2; ++server) {
    clock(server, 0, 2);
    adopt(server, 0, 2);
  }
  const auto read = pull(1, 0, 2, 2);
  EXPECT_FALSE(answer(1, 0, read));
  servers[0]->lose(1, "it died");
  EXPECT_EQ(hand_over(), 1U);
  EXPECT_FALSE(answer(1, 0, read));
  servers[1]->lose(1, "it died");
  EXPECT_EQ(answer(1, 0, read), 7);
}

TEST_F(TwoServers, RowsThatAreMalformedEndTheJobInsteadOfBeingMissed) {
  const std::vector<std::byte> garbage(9, std::byte{1});
  servers[1]->take_rows(0, garbage);
  const auto read = pull(1, 0, 0, 0);
  bool told = false;
  for (const auto& each : servers[1]->take_answers()) {
    if (each.sequence != read || each.worker != 0) continue;
    EXPECT_EQ(parse_reply(each.message).header.status, Status::worker_lost);
    told = true;
  }
  EXPECT_TRUE(told);
}

// ---- workers

// Keys of which all begin on server 0.
std::vector<std::uint64_t> keys_of_server_0(std::size_t count, int servers) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < count; ++key) {
    if (server_of_key(key, servers) == 0) keys.push_back(key);
  }
  return keys;
}

// As server_test::work, in a sparse table whose servers share their load anew every second clock, and whose load moves
// on.
std::uint64_t work_on_keys(const TestJob& job, Session& session, Endpoint& endpoint, int steps,
                           const server_test::Note& note) {
  const auto stamped = [&](Event event) {
    event.worker = endpoint.rank();
    event.stamp = endpoint.clock().now().time_since_epoch().count();
    note(std::move(event));
  };
  Table table = session.open({.name = "updates", .balance_every = kEvery});
  const auto workers = static_cast<std::size_t>(job.workers);
  const auto keys = keys_of_server_0(workers + 40, job.servers);
  const std::span<const std::uint64_t> own_keys = std::span(keys).first(workers);
  std::vector<float> rows(workers);
  std::vector<float> others(8);
  const float one = 1;
  const auto own = static_cast<std::size_t>(endpoint.rank());
  for (int step = 0; step < steps; ++step) {
    table.get(own_keys, rows);
    stamped({.kind = Event::Kind::begin, .worker = 0, .clock = step});
    stamped(server_test::read_of(rows, endpoint.rank(), step));
    stamped({.kind = Event::Kind::write, .worker = 0, .clock = step, .own = step});
    stamped({.kind = Event::Kind::end, .worker = 0, .clock = step});
    table.inc(std::span(keys).subspan(own, 1), {&one, 1});
    for (int again = 0; again < 3; ++again)
      table.pull(std::span(keys).subspan(workers + static_cast<std::size_t>(step / 3) % 5 * 8, 8), others).wait();
    session.clock();
  }
  stamped({.kind = Event::Kind::leave, .worker = 0, .clock = steps});
  return session.counters().moved_buckets;
}

TEST(ServerHistory, EveryReadKeepsThePolicysPromiseWhileBucketsMove) {
  const char* const policies[] = {"bsp", "ssp:0", "ssp:1", "ssp:3", "essp:2"};
  const std::uint64_t seeds = std::getenv("PACELINE_FULL") == nullptr ? 25 : 10'000;
  std::uint64_t moved = 0;
  for (std::uint64_t seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) {
    Random random(seed, 3);
    const TestJob job{.workers = 1 + static_cast<int>(random.below(4)),
                      .servers = 2 + static_cast<int>(random.below(3)),
                      .policy = parse_policy(policies[seed % std::size(policies)])};
    const int ranks = job.workers + job.servers;
    std::vector<History> histories(static_cast<std::size_t>(job.workers));
    const SimReport report =
        run_sim({.ranks = ranks, .seed = seed, .faults = Faults::random_delays(seed, ranks)}, [&](Endpoint& endpoint) {
          server_test::run_rank(job, endpoint, [&](Session& session, Endpoint& own) {
            History& history = histories[static_cast<std::size_t>(own.rank())];
            moved += work_on_keys(job, session, own, 10, [&](Event event) { history.push_back(std::move(event)); });
            EXPECT_EQ(session.staleness().violations(), 0);
          });
        });
    ASSERT_EQ(report.stopped, "") << "seed " << seed << ": " << report.describe();
    report.rethrow();
    const auto broken = check_history(job.policy, merge_histories(std::move(histories)), job.workers);
    EXPECT_FALSE(broken) << job.policy.text() << ", seed " << seed << ": " << broken->sentence;
  }
  EXPECT_GT(moved, 5 * seeds);
}

// With all that the rule remembers of a row.
TEST(Table, UnderBspRowsThatMoveKeepTheirBits) {
  for (const char* rule : {"add", "momentum:0.1", "adam:0.05"}) {
    std::vector<std::uint32_t> expected;
    for (const int servers : {1, 2, 4}) {
      const TestJob job{.workers = 2, .servers = servers};
      std::vector<float> end;
      std::uint64_t moved = 0;
      server_test::run_job(job, [&](Session& session, Endpoint& endpoint) {
        Table table = session.open({.name = "s", .width = 3, .rule = rule, .init = "normal:1", .balance_every = 3});
        const auto keys = keys_of_server_0(60, 4);  // on server 0 of two as well
        Random random(4, static_cast<std::uint64_t>(endpoint.rank()));
        std::vector<float> rows(180);
        for (int step = 0; step < 20; ++step) {
          table.get(keys, rows);
          std::vector<float> gradients(180);
          for (float& gradient : gradients) gradient = static_cast<float>(random.uniform() - 0.5);
          table.push(keys, gradients).wait();
          session.clock();
        }
        table.get(keys, rows);
        if (endpoint.rank() != 0) return;
        end = rows;
        moved = session.counters().moved_buckets;
      });
      EXPECT_EQ(moved > 0, servers > 1) << rule;
      std::vector<std::uint32_t> bits;
      for (const float value : end) bits.push_back(std::bit_cast<std::uint32_t>(value));
      if (servers == 1) expected = bits;
      EXPECT_EQ(bits, expected) << rule << " on " << servers;
    }
  }
}

TEST(Table, WhereNobodyMayWaitLoadIsNotSharedAnew) {
  const TestJob job{.workers = 1, .servers = 2, .policy = parse_policy("async")};
  server_test::run_job(job, [](Session& session, Endpoint&) {
    EXPECT_THROW(session.open({.name = "s", .balance_every = 4}), Error);
    EXPECT_THROW(session.open({.name = "s", .admit_after = 3, .balance_every = 4}), Error);
  });
}

}  // namespace
}  // namespace paceline
