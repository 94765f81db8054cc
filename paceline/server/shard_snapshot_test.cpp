// Snapshots and restores of one server, byte by byte.
#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/error.hpp"
#include "paceline/server/shard_test_support.hpp"

namespace paceline {
namespace {

using server_test::ShardBench;

TableSpec dense(const char* rule, std::uint64_t rows = 5, std::uint32_t width = 3) {
  return {.name = "w", .kind = TableSpec::Kind::dense, .rows = rows, .width = width, .rule = rule};
}
TableSpec sparse(const char* rule, std::uint32_t width = 2) {
  return {.name = "s", .width = width, .rule = rule, .init = "normal:0.1"};
}

class SnapshotBench : public ShardBench {
 public:
  using ShardBench::ShardBench;

  std::uint64_t begin(int worker, std::int64_t required = 0) {
    RequestHeader header = next(worker, Verb::snapshot);
    header.required = required;
    say(worker, message(header));
    return header.sequence;
  }
  std::uint64_t ask_piece(int worker, std::uint64_t snapshot, std::uint64_t most = 0) {
    RequestHeader header = next(worker, Verb::piece);
    header.first = snapshot;
    header.count = most;
    say(worker, message(header));
    return header.sequence;
  }
  TablePiece piece(int worker, std::uint64_t snapshot, std::uint64_t most = 0) {
    return decode_table_piece(reply(worker, ask_piece(worker, snapshot, most)).sentence);
  }
  std::vector<TablePiece> rest(int worker, std::uint64_t snapshot, std::uint64_t most = 0) {
    std::vector<TablePiece> all;
    for (TablePiece one = piece(worker, snapshot, most); one.size() > 0; one = piece(worker, snapshot, most))
      all.push_back(std::move(one));
    return all;
  }
  std::vector<TablePiece> whole(int worker) { return rest(worker, begin(worker)); }
  std::uint64_t end(int worker, std::uint64_t snapshot) {
    RequestHeader header = next(worker, Verb::end_snapshot);
    header.first = snapshot;
    say(worker, message(header));
    return header.sequence;
  }
  // What the server says of it; empty: done.
  std::string restore(int worker, std::string_view bytes) {
    const RequestHeader header = next(worker, Verb::restore);
    say(worker, message(header, {}, {}, bytes));
    EXPECT_EQ(answers(worker, header.sequence), 1u);
    EXPECT_EQ(reply(worker, header.sequence).header.status == Status::done,
              reply(worker, header.sequence).sentence.empty());
    return std::string(reply(worker, header.sequence).sentence);
  }
  void push_keys(const std::vector<std::uint64_t>& keys, const std::vector<float>& values) {
    RequestHeader header = next(0, Verb::push);
    header.rows = RowNames::listed;
    header.count = keys.size();
    say(0, message(header, keys, values));
    EXPECT_EQ(reply(0, header.sequence).header.status, Status::done);
  }
  std::vector<float> pull_keys(const std::vector<std::uint64_t>& keys) {
    RequestHeader header = next(0, Verb::pull);
    header.rows = RowNames::listed;
    header.count = keys.size();
    say(0, message(header, keys));
    return values(0, header.sequence);
  }
};

std::vector<float> ramp(std::size_t count, float scale) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(scale * (static_cast<float>(i % 7) - 2.5F));
  return values;
}

const char* const kRules[] = {"add", "sgd:0.1", "momentum:0.1", "adagrad:0.1", "rmsprop:0.1", "adam:0.1", "ftrl:0.1"};

Policy async() { return parse_policy("async"); }

// ---- what a snapshot has

TEST(ShardSnapshot, OfADenseTableGoesOnElsewhereBitForBit) {
  for (const char* rule : kRules) {
    for (const std::uint64_t most : {0, 1, 2}) {
      SnapshotBench from(async()), to(async());
      from.open(0, dense(rule));
      to.open(0, dense(rule));
      from.push(0, {0, 5}, ramp(15, 1));
      from.push(0, {1, 4}, ramp(9, 0.5F));  // other rows have fewer steps
      for (const TablePiece& piece : from.rest(0, from.begin(0), most)) EXPECT_EQ(to.restore(0, encode(piece)), "");
      EXPECT_EQ(to.values(0, to.pull(0, {0, 5})), from.values(0, from.pull(0, {0, 5}))) << rule;
      for (SnapshotBench* bench : {&from, &to}) bench->push(0, {0, 5}, ramp(15, -0.3F));
      EXPECT_EQ(to.values(0, to.pull(0, {0, 5})), from.values(0, from.pull(0, {0, 5}))) << rule;
    }
  }
}

TEST(ShardSnapshot, OfASparseTableGoesOnElsewhereBitForBit) {
  const std::vector<std::uint64_t> keys = {3, 1, 4, 159, 26, 535, 89};
  for (const char* rule : kRules) {
    SnapshotBench from(async()), to(async());
    from.open(0, sparse(rule));
    to.open(0, sparse(rule));
    from.push_keys(keys, ramp(14, 1));
    from.push_keys({4, 535}, ramp(4, 0.5F));
    for (const TablePiece& piece : from.rest(0, from.begin(0), 3)) EXPECT_EQ(to.restore(0, encode(piece)), "");
    EXPECT_EQ(to.pull_keys(keys), from.pull_keys(keys)) << rule;
    for (SnapshotBench* bench : {&from, &to}) bench->push_keys(keys, ramp(14, -0.3F));
    EXPECT_EQ(to.pull_keys(keys), from.pull_keys(keys)) << rule;
  }
}

TEST(ShardSnapshot, IsOfItsMomentWhilePushesAreAppliedAtOnce) {
  constexpr std::uint64_t kRows = 100'000;  // several blocks
  SnapshotBench bench(async(), 2);
  bench.open(0, dense("momentum:0.5", kRows, 1));
  bench.push(0, {0, kRows}, std::vector<float>(kRows, 1));
  const auto snapshot = bench.begin(0);
  std::uint64_t next = 0;
  for (int step = 0; next < kRows; ++step) {
    bench.push(1, {0, kRows}, std::vector<float>(kRows, 2));  // by another worker, between any two pieces
    const TablePiece piece = bench.piece(0, snapshot);
    ASSERT_EQ(piece.range.first, next);
    for (const float value : piece.rows.values) ASSERT_EQ(value, -0.5F) << step;
    for (const float state : piece.rows.state) ASSERT_EQ(state, 1.0F) << step;
    next = piece.range.last;
  }
  EXPECT_EQ(bench.piece(0, snapshot).size(), 0u);
  EXPECT_LT(bench.values(1, bench.pull(1, {0, 1}))[0], -2);
}

TEST(ShardSnapshot, UnderBspHasWholeStepsAndWaitsForThoseThatItMustContain) {
  SnapshotBench bench(parse_policy("bsp"), 2);
  bench.open(0, dense("add", 2, 1));
  bench.push(0, {0, 2}, {1, 1});
  EXPECT_EQ(bench.whole(0).at(0).rows.values, (std::vector<float>{0, 0}));
  bench.clock(0, 1);
  const auto snapshot = bench.begin(0, 1);
  EXPECT_EQ(bench.answers(0, snapshot), 0u);
  bench.push(1, {0, 2}, {10, 10});
  bench.clock(1, 1);
  ASSERT_EQ(bench.answers(0, snapshot), 1u);
  const auto contained = bench.reply(0, snapshot).contained;
  EXPECT_EQ(std::vector(contained.begin(), contained.end()), (std::vector<std::int64_t>{1, 1}));
  bench.push(1, {0, 2}, {100, 100}, 1);
  bench.clock(1, 2);
  EXPECT_EQ(bench.rest(0, snapshot).at(0).rows.values, (std::vector<float>{11, 11}));
}

// ---- its end

TEST(ShardSnapshot, EndsWithItsWorkerAndTheCopiesWithIt) {
  SnapshotBench bench(async(), 2);
  bench.open(0, sparse("adagrad:0.1", 8));
  std::vector<std::uint64_t> keys(5000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  bench.push_keys(keys, ramp(8 * keys.size(), 1));
  const ShardTable& table = *bench.shard().find("s");
  const std::uint64_t before = table.memory_bytes();
  RequestHeader open = bench.next(1, Verb::open);
  bench.say(1, ShardBench::message(open, {}, {}, encode(table.spec)));
  bench.begin(1);
  bench.push_keys(keys, ramp(8 * keys.size(), 1));
  EXPECT_GT(table.memory_bytes(), before + before / 2);
  bench.lose(1, "rank 1 died");
  EXPECT_EQ(table.memory_bytes(), before);
  bench.push_keys(keys, ramp(8 * keys.size(), 1));
  EXPECT_EQ(table.memory_bytes(), before);
}

TEST(ShardSnapshot, EndsWhenItsWorkerSaysSoAndOthersGoOn) {
  SnapshotBench bench(async());
  bench.open(0, dense("add"));
  const auto one = bench.begin(0), other = bench.begin(0);
  bench.end(0, one);
  const auto gone = bench.ask_piece(0, one);
  EXPECT_EQ(bench.reply(0, gone).sentence, "worker 0 asks for a piece of a snapshot of table 'w' that is not there");
  EXPECT_EQ(bench.piece(0, other).size(), 5u);
  EXPECT_EQ(bench.reply(0, bench.end(0, 77)).header.status, Status::done);
}

TEST(ShardSnapshot, AWorkerHasFourOfATableAtATime) {
  SnapshotBench bench(async(), 2);
  bench.open(0, dense("add"));
  const auto first = bench.begin(0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bench.reply(0, bench.begin(0)).header.status, Status::done);
  EXPECT_EQ(bench.reply(0, bench.begin(0)).sentence,
            "worker 0 has 4 snapshots of table 'w', of which one must end first");
  EXPECT_EQ(bench.reply(1, bench.begin(1)).header.status, Status::done);
  bench.rest(0, first);
  EXPECT_EQ(bench.reply(0, bench.begin(0)).header.status, Status::done);
}

// ---- what is refused

TEST(ShardRestore, ABadPieceIsRefusedWithASentenceAndChangesNothing) {
  SnapshotBench bench(async());
  bench.open(0, dense("adam:0.1", 2, 1));
  bench.push(0, {0, 2}, {1, 2});
  const std::string good = encode(bench.whole(0).at(0));
  const auto expect_refused = [&](const TablePiece& piece, const char* says) {
    const std::string sentence = bench.restore(0, encode(piece));
    EXPECT_NE(sentence.find(says), std::string::npos) << sentence;
    EXPECT_EQ(encode(bench.whole(0).at(0)), good);
  };
  const TablePiece piece{.range = {0, 2},
                         .rows = {.keys = {}, .values = {7, 7}, .state = {7, 7, 7, 7}, .steps = {7, 7}}};
  TablePiece bad = piece;
  bad.range = {1, 3};
  expect_refused(bad, "has rows 0 to 2, and the piece 1 to 3");
  bad.range = {0, ~std::uint64_t{0}};
  expect_refused(bad, "has rows 0 to 2");
  bad = piece;
  bad.rows.keys = {0, 1};
  expect_refused(bad, "is dense, and the piece is of one that is not");
  bad = piece;
  bad.rows.values.pop_back();
  expect_refused(bad, "have 2 values, 4 floats of state and 2 step counts, not 1, 4 and 2");
  bad = piece;
  bad.rows.state.push_back(1);
  expect_refused(bad, "not 2, 5 and 2");
  bad = piece;
  bad.rows.steps = {};
  expect_refused(bad, "not 2, 4 and 0");
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(bench.restore(0, std::string_view(good).substr(0, size)), "a piece of a table is malformed");
  EXPECT_EQ(encode(bench.whole(0).at(0)), good);
  EXPECT_EQ(bench.restore(0, encode(piece)), "");
  EXPECT_EQ(bench.whole(0).at(0).rows.steps, (std::vector<std::uint32_t>{7, 7}));
}

TEST(ShardRestore, RowsThatBelongToAnotherServerAreRefused) {
  for (const bool is_dense : {true, false}) {
    ServerShard shard({.place = {.index = 1, .servers = 3, .workers = 1}, .policy = async()},
                      [](int, std::uint64_t) { return std::nullopt; });
    const TableSpec spec = is_dense ? dense("add", 300, 1) : sparse("add", 1);
    shard.handle(0, ShardBench::message({.verb = Verb::open, .sequence = 1}, {}, {}, encode(spec)));
    std::uint64_t foreign = 0;
    while (server_of_key(foreign, 3) == 1) ++foreign;
    TablePiece piece;
    if (is_dense) piece.range = {0, 1};
    if (!is_dense) piece.rows.keys = {foreign};
    piece.rows.values = {5};
    shard.handle(0, ShardBench::message({.verb = Verb::restore, .sequence = 2}, {}, {}, encode(piece)));
    const auto answers = shard.take_answers();
    ASSERT_EQ(answers.size(), 2u);
    const std::string sentence(parse_reply(answers[1].message).sentence);
    EXPECT_NE(sentence.find(is_dense ? "are not all here" : "and this is server 1"), std::string::npos) << sentence;
  }
}

TEST(ShardRestore, RowsThatDoNotFitTheBudgetAreRefusedAndTheOthersAreThere) {
  TableSpec spec = sparse("add", 1);
  SnapshotBench from(async()), to(async());
  from.open(0, spec);
  spec.budget_bytes = 200'000;
  to.open(0, spec);
  std::vector<std::uint64_t> keys(20'000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  from.push_keys(keys, ramp(keys.size(), 1));
  const auto pieces = from.whole(0);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_NE(to.restore(0, encode(pieces[0])).find("no room for new rows"), std::string::npos);
  const std::uint64_t first = pieces[0].rows.keys[0];
  EXPECT_EQ(to.pull_keys({first}), from.pull_keys({first}));
}

TEST(ShardRestore, TakesTheSignOfZerosWhereTheRuleIsAdd) {
  SnapshotBench bench(async());
  bench.open(0, dense("add", 1, 1));
  EXPECT_EQ(bench.restore(0, encode(TablePiece{.range = {0, 1}, .rows = {.keys = {}, .values = {-0.0F}}})), "");
  EXPECT_FALSE(std::signbit(bench.values(0, bench.pull(0, {0, 1}))[0]));
}

}  // namespace
}  // namespace paceline
