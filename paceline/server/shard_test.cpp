#include "paceline/server/shard.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "paceline/core/random.hpp"
#include "paceline/server/shard_test_support.hpp"

namespace paceline {
namespace {

using server_test::ShardBench;

const TableSpec kWeights{.name = "w", .kind = TableSpec::Kind::dense, .rows = 4};
const TableSpec kRows{.name = "s", .width = 2};

Policy policy(const char* text) { return parse_policy(text); }

// ---- what comes twice

TEST(ServerShard, ARequestThatComesTwiceChangesNothingAndIsAnsweredOnce) {
  ShardBench bench(policy("async"));
  bench.open(0, kWeights);
  const std::vector<float> ones(4, 1);
  for (int verb = static_cast<int>(Verb::open); verb <= static_cast<int>(kLastVerb); ++verb) {
    RequestHeader header = bench.next(0, static_cast<Verb>(verb));
    header.clock = 1;
    const bool brings = header.verb == Verb::put || header.verb == Verb::push;
    if (brings || header.verb == Verb::pull) {
      header.rows = RowNames::range;
      header.count = 4;
    }
    const auto bytes = ShardBench::message(header, {}, brings ? std::span(ones) : std::span<const float>(),
                                           header.verb == Verb::open ? encode(kRows) : "");
    for (int times = 0; times < 3; ++times) bench.say(0, bytes);
    EXPECT_EQ(bench.answers(0, header.sequence), header.verb == Verb::clock ? 0u : 1u) << name(header.verb);
  }
  EXPECT_EQ(bench.values(0, bench.pull(0, {0, 4})), std::vector<float>(4, 2));  // put 1, then pushed 1
}

// ---- when a pull is answered

TEST(ServerShard, APullWaitsUntilAllHaveClockedAsFarAsItMustContain) {
  ShardBench bench(policy("ssp:1"), 3);
  for (int worker = 0; worker < 3; ++worker) bench.open(worker, kWeights);
  const auto pull = bench.pull(0, {0, 4}, 2);
  bench.clock(1, 2);
  bench.clock(0, 5);
  bench.clock(2, 1);
  EXPECT_EQ(bench.answers(0, pull), 0u);
  bench.push(2, {1, 2}, {7}, 1);
  bench.clock(2, 2);
  ASSERT_EQ(bench.answers(0, pull), 1u);
  EXPECT_EQ(bench.values(0, pull), (std::vector<float>{0, 7, 0, 0}));
  const auto contained = bench.reply(0, pull).contained;
  EXPECT_EQ(std::vector(contained.begin(), contained.end()), (std::vector<std::int64_t>{5, 2, 2}));
}

TEST(ServerShard, UnderBspUpdatesAreAppliedInWorkerOrderOnceAllHaveClocked) {
  ShardBench bench(policy("bsp"), 2);
  bench.open(0, kWeights);
  bench.open(1, kWeights);
  const float big = 1 << 25;
  bench.push(1, {0, 4}, {1, 1, 1, 1});
  bench.push(0, {0, 4}, {big, 0, -big, 0});
  bench.push(0, {0, 1}, {-big});
  const auto pull = bench.pull(1, {0, 4}, 1);
  const auto early = bench.pull(1, {0, 4}, 0);
  EXPECT_EQ(bench.values(1, early), std::vector<float>(4));
  bench.clock(1, 1);
  EXPECT_EQ(bench.answers(1, pull), 0u);
  bench.clock(0, 1);
  // (big - big) + 1 for the first row: worker 0's both come before worker 1's.
  EXPECT_EQ(bench.values(1, pull), (std::vector<float>{1, 1, 1 - big, 1}));
  EXPECT_NE(bench.reply(0, bench.push(0, {0, 1}, {1}, 0)).sentence.find("step 0 is over"), std::string_view::npos);
}

TEST(ServerShard, WhoLeavesOrDiesReleasesThoseThatWaitUnlessThePolicyNeedsIt) {
  for (const char* text : {"ssp:2", "essp:1"}) {
    for (const bool dies : {false, true}) {
      ShardBench bench(policy(text), 2);
      bench.open(0, kWeights);
      const auto pull = bench.pull(0, {0, 4}, 10);
      bench.clock(0, 10);
      EXPECT_EQ(bench.answers(0, pull), 0u);
      dies ? bench.lose(1, "rank 1 died") : bench.leave(1);
      EXPECT_EQ(bench.reply(0, pull).header.status, Status::done) << text;
      EXPECT_EQ(bench.values(0, pull).size(), 4u);
    }
  }
}

TEST(ServerShard, UnderBspTheDeathOfAWorkerIsToldToAllThatPull) {
  ShardBench bench(policy("bsp"), 3);
  for (int worker = 0; worker < 3; ++worker) bench.open(worker, kWeights);
  const auto waits = bench.pull(0, {0, 4}, 1);
  const auto of_the_dead = bench.pull(1, {0, 4}, 1);
  bench.lose(1, "rank 1 (host h, pid 7) died");
  EXPECT_EQ(bench.reply(0, waits).header.status, Status::worker_lost);
  EXPECT_EQ(bench.reply(0, waits).sentence, "rank 1 (host h, pid 7) died");
  EXPECT_EQ(bench.reply(2, bench.pull(2, {0, 4})).sentence, "rank 1 (host h, pid 7) died");
  EXPECT_EQ(bench.answers(1, of_the_dead), 0u);
  bench.lose(1, "again");
  bench.lose(0, "rank 0 has left because of it");
  EXPECT_EQ(bench.reply(2, bench.pull(2, {0, 4})).sentence, "rank 1 (host h, pid 7) died");
}

TEST(ServerShard, UnderBspWhoHasLeftMayDieAndIsNotWaitedFor) {
  ShardBench bench(policy("bsp"), 2);
  bench.open(0, kWeights);
  bench.push(1, {0, 1}, {3});
  bench.leave(1);
  bench.lose(1, "rank 1 has closed");
  bench.clock(0, 1);
  EXPECT_EQ(bench.values(0, bench.pull(0, {0, 4}, 1)), (std::vector<float>{3, 0, 0, 0}));
  EXPECT_FALSE(bench.shard().deserted());
  bench.lose(0, "rank 0 has closed");
  EXPECT_TRUE(bench.shard().deserted());
}

TEST(ServerShard, UnderBspWhoLeavesMayUseItsMemoryForSomethingElse) {
  ShardBench bench(policy("bsp"), 2);
  bench.open(0, kWeights);
  RequestHeader push = bench.range(1, Verb::push, {0, 4});
  push.push_from = {.region = 1, .offset = 8};
  std::fill(bench.memory[1].begin(), bench.memory[1].end(), 5.0F);
  bench.say(1, ShardBench::message(push));
  bench.leave(1);
  std::fill(bench.memory[1].begin(), bench.memory[1].end(), 9.0F);
  bench.clock(0, 1);
  EXPECT_EQ(bench.values(0, bench.pull(0, {0, 4}, 1)), std::vector<float>(4, 5));
}

TEST(ServerShard, UnderBspMemoryThatIsGivenBackTooEarlyIsToldToAllInsteadOfBeingRead) {
  ShardBench bench(policy("bsp"), 2);
  bench.open(0, kWeights);
  RequestHeader push = bench.range(1, Verb::push, {0, 4});
  push.push_from = {.region = 1};
  bench.say(1, ShardBench::message(push));
  bench.memory[1].clear();
  bench.clock(0, 1);
  bench.clock(1, 1);
  EXPECT_EQ(bench.reply(0, bench.pull(0, {0, 4}, 1)).sentence,
            "worker 1 has given back the memory of a push to table 'w' before it was applied");
}

TEST(ServerShard, UnderBspAReadIntoMappedMemoryIsThereWithTheAnswer) {
  ShardBench bench(policy("bsp"), 2);
  bench.open(0, kWeights);
  RequestHeader pull = bench.range(0, Verb::pull, {0, 4});
  pull.pull_into = {.region = 1, .offset = 16};
  pull.required = 1;
  bench.say(0, ShardBench::message(pull));
  bench.push(0, {0, 4}, {1, 2, 3, 4});
  bench.push(1, {0, 4}, {1, 1, 1, 1});
  bench.clock(0, 1);
  bench.clock(1, 1);
  ASSERT_EQ(bench.answers(0, pull.sequence), 1u);
  EXPECT_EQ(std::vector(bench.memory[0].begin() + 4, bench.memory[0].begin() + 9), (std::vector<float>{2, 3, 4, 5, 0}));
}

// ---- lists of keys

TEST(ServerShard, AListIsRememberedFromTheMomentItComesAlsoByAPullThatWaits) {
  ShardBench bench(policy("ssp:0"), 2);
  bench.open(0, kRows);
  const std::vector<std::uint64_t> keys = {5, 6, 7};
  RequestHeader pull = bench.next(0, Verb::pull);
  pull.rows = RowNames::listed;
  pull.count = keys.size();
  pull.hash = hash_of(keys);
  pull.required = 1;
  bench.say(0, ShardBench::message(pull, keys));
  RequestHeader push = bench.next(0, Verb::push);
  push.rows = RowNames::remembered;
  push.count = keys.size();
  push.hash = pull.hash;
  bench.say(0, ShardBench::message(push, {}, std::vector<float>(6, 1)));
  EXPECT_EQ(bench.reply(0, push.sequence).header.status, Status::done);
  bench.clock(0, 1);
  bench.clock(1, 1);
  EXPECT_EQ(bench.values(0, pull.sequence), std::vector<float>(6, 1));
}

TEST(ServerShard, OfEachWorkerTheLatest32ListsAreRemembered) {
  ShardBench bench(policy("async"));
  bench.open(0, kRows);
  const auto ask = [&](std::uint64_t key, RowNames rows) {
    RequestHeader pull = bench.next(0, Verb::pull);
    pull.rows = rows;
    pull.count = 1;
    pull.hash = hash_of({&key, 1});
    bench.say(0, ShardBench::message(pull, {&key, rows == RowNames::listed ? 1U : 0U}));
    return bench.reply(0, pull.sequence).header.status;
  };
  for (std::uint64_t key = 0; key < 40; ++key) EXPECT_EQ(ask(key, RowNames::listed), Status::done);
  for (std::uint64_t key = 0; key < 40; ++key)
    EXPECT_EQ(ask(key, RowNames::remembered), key < 8 ? Status::forgotten : Status::done) << key;
  EXPECT_EQ(ask(3, RowNames::listed), Status::done);
  EXPECT_EQ(ask(3, RowNames::remembered), Status::done);
}

// ---- bad requests

class BadRequests : public testing::Test {
 protected:
  BadRequests() : bench(policy("async"), 2) {
    bench.open(0, kWeights);
    bench.open(0, kRows);
    bench.push(0, {0, 4}, {1, 2, 3, 4});
  }
  // What a request without a fault in its form is answered with.
  std::string refusal(const RequestHeader& header, std::span<const std::uint64_t> keys = {},
                      std::span<const float> values = {}, std::string_view note = {}) {
    bench.say(0, ShardBench::message(header, keys, values, note));
    EXPECT_EQ(bench.answers(0, header.sequence), 1u);
    const TableReply reply = bench.reply(0, header.sequence);
    EXPECT_EQ(reply.header.status, Status::refused);
    expect_alive();
    return std::string(reply.sentence);
  }
  void expect_alive() { EXPECT_EQ(bench.values(1, bench.pull(1, {0, 4})), (std::vector<float>{1, 2, 3, 4})); }
  RequestHeader pull(RowRange rows) { return bench.range(0, Verb::pull, rows); }
  static bool says(const std::string& sentence, const char* part) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
    return true;
  }

  ShardBench bench;
};

TEST_F(BadRequests, ForATableThatIsNotThere) {
  RequestHeader header = pull({0, 4});
  header.table = 2;
  says(refusal(header), "names table 2, and there are 2");
}

TEST_F(BadRequests, WithAbsurdCounts) {
  for (const std::uint64_t count : {std::uint64_t{5}, std::uint64_t{1} << 62, std::uint64_t{1} << 63}) {
    says(refusal(pull({0, count})), "are not all here: this server has 0 to 4");
    says(refusal(bench.range(0, Verb::push, {0, count}), {}, std::vector<float>(4)), "are not all here");
    RequestHeader mapped = bench.range(0, Verb::push, {0, count});
    mapped.push_from = {.region = 1};
    refusal(mapped);
    RequestHeader listed = bench.next(0, Verb::pull);
    listed.rows = RowNames::listed;
    listed.table = 1;
    listed.count = count;
    says(refusal(listed, std::vector<std::uint64_t>(2)), "malformed");
  }
  says(refusal(pull({std::numeric_limits<std::uint64_t>::max(), 3})), "beyond any table");
}

TEST_F(BadRequests, WithTheWrongNumberOfFloats) {
  says(refusal(bench.range(0, Verb::push, {0, 4}), {}, std::vector<float>(3)),
       "4 rows of table 'w' are 4 floats, not 3");
  RequestHeader keys = bench.next(0, Verb::push);
  keys.rows = RowNames::listed;
  keys.table = 1;
  keys.count = 2;
  says(refusal(keys, std::vector<std::uint64_t>(2), std::vector<float>(3)), "2 rows of table 's' are 4 floats, not 3");
}

TEST_F(BadRequests, ThatNameRowsInTheWayOfTheOtherKindOfTable) {
  RequestHeader keys = bench.next(0, Verb::pull);
  keys.rows = RowNames::listed;
  keys.count = 1;
  says(refusal(keys, std::vector<std::uint64_t>{3}), "is dense and has no keys");
  RequestHeader range = pull({0, 2});
  range.table = 1;
  says(refusal(range), "is sparse and has no ranges");
}

TEST_F(BadRequests, ThatPointOutsideOfSharedMemory) {
  const MappedValues places[] = {{.region = 2},
                                 {.region = 1, .offset = 244},
                                 {.region = 1, .offset = 2},
                                 {.region = 1, .offset = ~std::uint64_t{3}}};
  for (const MappedValues& place : places) {
    RequestHeader from = bench.range(0, Verb::push, {0, 4});
    from.push_from = place;
    says(refusal(from), "memory that the worker does not share");
    RequestHeader into = pull({0, 4});
    into.pull_into = place;
    says(refusal(into), "memory that the worker does not share");
  }
}

TEST_F(BadRequests, WithAHashThatIsNotThatOfTheKeys) {
  RequestHeader keys = bench.next(0, Verb::pull);
  keys.rows = RowNames::listed;
  keys.table = 1;
  keys.count = 2;
  keys.hash = {1, 2};
  says(refusal(keys, std::vector<std::uint64_t>(2)), "another hash");
}

TEST_F(BadRequests, WithUnknownWordsAndImpossibleSteps) {
  RequestHeader verb = pull({0, 4});
  verb.verb = static_cast<Verb>(99);
  says(refusal(verb), "unknown verb 99");
  RequestHeader rows = pull({0, 4});
  rows.rows = static_cast<RowNames>(9);
  says(refusal(rows), "unknown way 9");
  RequestHeader clock = bench.next(0, Verb::clock);
  clock.clock = std::numeric_limits<std::int64_t>::max();
  says(refusal(clock), "which no worker comes to");
}

TEST_F(BadRequests, ThatAreTruncatedOrOverlong) {
  const RequestHeader whole = bench.range(0, Verb::push, {0, 4});
  auto bytes = ShardBench::message(whole, {}, std::vector<float>(4));
  bytes.pop_back();
  bench.say(0, bytes);
  says(std::string(bench.reply(0, whole.sequence).sentence), "malformed");
  bytes.resize(sizeof(RequestHeader) - 1);  // no number to answer to
  bench.say(0, bytes);
  EXPECT_EQ(bench.answers(0, 0), 1u);
  says(refusal(pull({0, 4}), {}, std::vector<float>(1)), "malformed");
  expect_alive();
}

TEST_F(BadRequests, ForTablesThatCannotBe) {
  TableSpec spec = kWeights;
  spec.width = 2;
  says(refusal(bench.next(0, Verb::open), {}, {}, encode(spec)), "all workers must open it alike");
  refusal(bench.next(0, Verb::open), {}, {}, "nonsense");
  spec = {.name = "large", .kind = TableSpec::Kind::dense, .rows = std::uint64_t{1} << 40};
  says(refusal(bench.next(0, Verb::open), {}, {}, encode(spec)), "more than this machine has");
}

// The one whose pull is bad hears of it, not the one whose clock lets it go on.
TEST(ServerShard, APullThatWaitsAndIsBadIsRefusedWhenItsTurnComesAndOthersGoOn) {
  for (const char* text : {"bsp", "ssp:0"}) {
    ShardBench bench(policy(text), 2);
    bench.open(0, kWeights);
    RequestHeader bad = bench.range(0, Verb::pull, {0, 4});
    bad.required = 1;
    bad.pull_into = {.region = 7};
    bench.say(0, ShardBench::message(bad));
    RequestHeader good = bench.range(1, Verb::pull, {0, 4});
    good.required = 1;
    bench.say(1, ShardBench::message(good));
    bench.push(1, {0, 4}, {1, 2, 3, 4});
    bench.clock(0, 1);
    const std::size_t before = bench.all_answers();
    bench.clock(1, 1);
    EXPECT_EQ(bench.all_answers(), before + 2) << text;
    EXPECT_EQ(bench.reply(0, bad.sequence).header.status, Status::refused);
    EXPECT_EQ(bench.values(1, good.sequence), (std::vector<float>{1, 2, 3, 4}));
  }
}

// Headers with some fields at random, and bytes that are nothing at all, after each other.
TEST(ServerShard, SurvivesRandomBytesAndGoesOnForOtherWorkers) {
  const std::uint64_t seeds = std::getenv("PACELINE_FULL") == nullptr ? 60 : 5000;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Random random(seed);
    const char* const words[] = {"bsp", "ssp:1", "async", "softsync:2"};
    ShardBench bench(policy(words[seed % 4]), 2);
    bench.open(0, kWeights);
    bench.open(0, kRows);
    for (int i = 0; i < 200; ++i) {
      RequestHeader header = bench.next(0, static_cast<Verb>(1 + random.below(static_cast<int>(kLastVerb))));
      header.rows = static_cast<RowNames>(random.below(5));
      header.table = static_cast<std::uint32_t>(random.below(3));
      header.count = random.below(6);
      header.clock = static_cast<std::int64_t>(random.below(5));
      header.required = static_cast<std::int64_t>(random.below(3));
      header.push_from = {.region = random.below(3), .offset = 4 * random.below(70)};
      header.pull_into = {.region = random.below(3), .offset = 4 * random.below(70)};
      auto bytes = ShardBench::message(header, {}, std::vector<float>(random.below(12), 1));
      for (std::uint64_t hit = random.below(4); hit > 0; --hit) {  // but not the number, or nothing more would be heard
        const std::size_t at = random.below(bytes.size());
        if (at < 16 || at >= 24) bytes[at] = static_cast<std::byte>(random.below(256));
      }
      if (random.below(8) == 0) bytes.resize(random.below(bytes.size()));
      bench.say(0, std::move(bytes));
    }
    bench.leave(0);
    bench.lose(0, "rank 0 has closed");
    EXPECT_EQ(bench.answers(1, bench.pull(1, {0, 4})), 1u) << seed;
  }
}

}  // namespace
}  // namespace paceline
