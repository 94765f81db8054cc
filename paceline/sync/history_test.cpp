#include "paceline/sync/history.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <utility>

#include "paceline/core/random.hpp"
#include "paceline/sync/history_test_support.hpp"

namespace paceline {
namespace {

using Kind = Event::Kind;
using Rule = Violation::Rule;

bool full() { return std::getenv("PACELINE_FULL") != nullptr; }

std::string sentence(const char* policy, const History& history, int workers = 2) {
  const std::optional<Violation> found = check_history(parse_policy(policy), history, workers);
  return found ? found->sentence : "";
}

Event begin(int worker, std::int64_t clock) { return {Kind::begin, worker, clock}; }
Event end(int worker, std::int64_t clock) { return {Kind::end, worker, clock}; }
Event write(int worker, std::int64_t clock, std::int64_t number) { return {Kind::write, worker, clock, number}; }
Event read(int worker, std::int64_t clock, std::int64_t own, std::vector<std::int64_t> contained) {
  return {Kind::read, worker, clock, own, std::move(contained)};
}

TEST(History, AViolationSaysWhoLackedWhatAndWhere) {
  const History history = {begin(0, 0), end(0, 0), begin(0, 1), end(0, 1), read(0, 2, 0, {2, 0})};
  const std::optional<Violation> found = check_history(parse_policy("ssp:1"), history, 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rule, Rule::bound);
  EXPECT_EQ(found->event, 4u);
  EXPECT_EQ(found->worker, 0);
  EXPECT_EQ(found->clock, 2);
  EXPECT_EQ(found->sentence,
            "the read of worker 0 at clock 2 has only the updates of worker 1 before step 0; ssp:1 promises all before "
            "step 1");
  EXPECT_EQ(sentence("ssp:2", history), "");
}

TEST(History, EachRuleHasItsSentence) {
  EXPECT_EQ(sentence("bsp", {begin(0, 0), end(0, 0), begin(0, 1)}),
            "worker 0 began step 1 when worker 1 had ended 0 steps; bsp wants 1");
  EXPECT_EQ(sentence("async", {begin(0, 0), write(0, 0, 0), write(0, 0, 1), read(0, 0, 1, {0, 0})}),
            "the read of worker 0 at clock 0 has 1 of its own updates; it had written 2");
  EXPECT_EQ(sentence("async", {begin(1, 0), end(1, 0), read(0, 0, 0, {0, 1}), read(0, 0, 0, {0, 0})}),
            "the read of worker 0 at clock 0 has the updates of worker 1 before step 0; the one before had those "
            "before step 1");
  EXPECT_EQ(
      sentence("bsp", {begin(1, 0), end(1, 0), read(0, 0, 0, {0, 1})}),
      "the read of worker 0 at clock 0 has an update of worker 1's step 0; bsp keeps it back until all have ended that "
      "step");
}

TEST(History, OwnUpdatesMayArriveLateWhereThePolicySaysSoButNeverGoAgain) {
  const History late = {begin(0, 0), write(0, 0, 0), read(0, 0, 0, {0, 0}), read(0, 0, 1, {0, 0})};
  EXPECT_EQ(sentence("softsync:2", late), "");
  EXPECT_EQ(sentence("delayed:1", late), "");
  EXPECT_EQ(check_history(parse_policy("ssp:3"), late, 2)->rule, Rule::own_writes);
  const History again = {begin(0, 0), write(0, 0, 0), read(0, 0, 1, {0, 0}), read(0, 0, 0, {0, 0})};
  EXPECT_EQ(check_history(parse_policy("softsync:2"), again, 2)->rule, Rule::monotone);
}

TEST(History, BspSeesAnUpdateOfAStepThatIsNotWholeYet) {
  Event partial = read(0, 0, 0, {0, 0});
  partial.latest = {0, 1};
  EXPECT_EQ(check_history(parse_policy("bsp"), {begin(1, 0), write(1, 0, 0), partial}, 2)->rule, Rule::early);
  EXPECT_EQ(sentence("ssp:0", {begin(1, 0), write(1, 0, 0), partial}), "");
}

TEST(History, AWorkerThatHasLeftHoldsUpNobodyAndOwesNothing) {
  const Event leave = {Kind::leave, 1, 0};
  const History history = {leave, begin(0, 0), end(0, 0), read(0, 1, 0, {1, 0}), begin(0, 1)};
  EXPECT_EQ(sentence("bsp", history), "");
  EXPECT_EQ(check_history(parse_policy("bsp"), History(history.begin() + 1, history.end()), 2)->rule, Rule::bound);
}

TEST(History, ARecordThatCannotHaveHappenedIsCalledThat) {
  const std::pair<History, const char*> records[] = {
      {{begin(2, 0)}, "the record names worker 2; there are 2"},
      {{{Kind::leave, 0, 0}, begin(0, 0)}, "worker 0 goes on after it has left"},
      {{begin(0, 1)}, "worker 0 is recorded at clock 1 after 0 steps"},
      {{begin(0, 0), begin(0, 0)}, "worker 0 at clock 0: the step before has no end"},
      {{write(0, 0, 0)}, "worker 0 at clock 0: the step has no beginning"},
      {{begin(0, 0), write(0, 0, 1)}, "worker 0's update 1 is recorded after 0 updates"},
      {{read(0, 0, 0, {0})}, "a read of worker 0 says what it had of 1 workers; there are 2"},
      {{read(0, 0, 1, {0, 0})}, "a read of worker 0 has 1 of its own updates; it has written 0"},
      {{read(0, 0, 0, {0, 1})}, "a read of worker 0 has 1 whole steps of worker 1, which has ended 0"},
  };
  for (const auto& [history, expected] : records) {
    EXPECT_EQ(sentence("async", history), expected);
    EXPECT_EQ(check_history(parse_policy("async"), history, 2)->rule, Rule::record);
  }
}

TEST(History, TheRecordsOfWorkersAreMergedByStamp) {
  const auto stamped = [](Event event, std::int64_t stamp) {
    event.stamp = stamp;
    return event;
  };
  const History merged = merge_histories({{stamped(begin(0, 0), 3), stamped(end(0, 0), 5)},
                                          {},
                                          {stamped(begin(2, 0), 1), stamped(end(2, 0), 3), stamped(begin(2, 1), 9)}});
  std::vector<std::pair<int, std::int64_t>> order;
  for (const Event& event : merged) order.emplace_back(event.worker, event.stamp);
  EXPECT_EQ(order, (std::vector<std::pair<int, std::int64_t>>{{2, 1}, {0, 3}, {2, 3}, {0, 5}, {2, 9}}));
}

struct Outcome {
  std::size_t states = 0;
  std::size_t ends = 0;  // states in which nothing is left to do
  std::vector<Violation> violations;
};

// Walks through every order of the machine's actions. Orders that lead to the same state of machine and checker have
// the same future, so each state is taken once.
Outcome explore(const MachineShape& shape) {
  using State = std::pair<Machine, HistoryChecker>;
  const State start = {Machine(shape), HistoryChecker(shape.policy, shape.workers)};
  std::set<State> seen = {start};
  std::vector<State> left = {start};
  Outcome outcome;
  while (!left.empty()) {
    const State state = std::move(left.back());
    left.pop_back();
    const std::vector<Machine::Action> actions = state.first.possible(shape);
    outcome.ends += actions.empty();
    for (const Machine::Action action : actions) {
      State next = state;
      const std::optional<Event> event = next.first.perform(shape, action);
      std::optional<Violation> found = event ? next.second.add(*event) : std::nullopt;
      if (found) {
        outcome.violations.push_back(std::move(*found));
      } else if (seen.insert(next).second) {
        left.push_back(std::move(next));
      }
    }
  }
  outcome.states = seen.size();
  return outcome;
}

const char* const kPolicies[] = {"bsp",        "ssp:0",      "ssp:1",   "ssp:2",   "essp:1",    "async",
                                 "softsync:1", "softsync:2", "local:1", "local:2", "delayed:1", "delayed:2"};

void expect_kept(const MachineShape& shape) {
  const Outcome outcome = explore(shape);
  const std::string what = shape.policy.text() + ", " + std::to_string(shape.workers) + " workers, " +
                           std::to_string(outcome.states) + " states";
  EXPECT_TRUE(outcome.violations.empty()) << what << ": " << outcome.violations.front().sentence;
  EXPECT_GT(outcome.states, 100u) << what;
  EXPECT_GE(outcome.ends, 1u) << what << ": it never comes to its end";
}

// Where the server keeps updates back in batches there are many more states.
bool many_states(const Policy& policy) { return policy.kind == Policy::Kind::softsync; }

TEST(HistoryOfAMachine, EveryOrderOfTwoWorkersKeepsThePolicy) {
  for (const char* word : kPolicies) {
    const Policy policy = parse_policy(word);
    expect_kept({.policy = policy, .clocks = many_states(policy) ? 2 : 3});
    expect_kept({.policy = policy, .clocks = many_states(policy) ? 1 : 2, .writes = 2});
    expect_kept({.policy = policy, .clocks = many_states(policy) ? 2 : 3, .first_leaves = true});
  }
}

TEST(HistoryOfAMachine, EveryOrderOfThreeWorkersKeepsThePolicyInAStep) {
  for (const char* word : kPolicies) {
    const Policy policy = parse_policy(word);
    if (!many_states(policy)) expect_kept({.policy = policy, .workers = 3, .clocks = 1});
  }
}

TEST(HistoryOfAMachine, SlowEveryOrderOfUpdatesInBatchesKeepsThePolicy) {
  for (const char* word : {"softsync:1", "softsync:2", "softsync:3"}) {
    expect_kept({.policy = parse_policy(word), .clocks = 3});
    expect_kept({.policy = parse_policy(word), .clocks = 2, .writes = 2});
    expect_kept({.policy = parse_policy(word), .clocks = 3, .first_leaves = true});
    expect_kept({.policy = parse_policy(word), .workers = 3, .clocks = 1});
  }
}

TEST(HistoryOfAMachine, SlowEveryOrderOfThreeWorkersKeepsThePolicyInTwoSteps) {
  for (const char* word : {"bsp", "ssp:0", "delayed:1", "local:1"}) {
    expect_kept({.policy = parse_policy(word), .workers = 3, .clocks = 2});
    expect_kept({.policy = parse_policy(word), .workers = 3, .clocks = 2, .first_leaves = true});
  }
}

struct Broken {
  const char* policy;
  Fault fault;
  Rule rule;
};
// Five promises that can be broken, each in one way that its rule alone catches; the first in both of its places.
const Broken kBroken[] = {
    {"ssp:1", Fault::reads_one_too_old, Rule::bound},  {"ssp:1", Fault::begins_one_early, Rule::begin},
    {"ssp:1", Fault::led_by_the_fastest, Rule::begin}, {"ssp:1", Fault::own_writes_hidden, Rule::own_writes},
    {"bsp", Fault::applies_early, Rule::early},        {"ssp:1", Fault::goes_back_in_time, Rule::monotone},
};

TEST(HistoryOfABrokenMachine, IsCaughtByTheRuleThatItBreaksAndByNoOther) {
  for (const Broken& broken : kBroken) {
    const Outcome outcome = explore({.policy = parse_policy(broken.policy), .fault = broken.fault, .clocks = 3});
    EXPECT_FALSE(outcome.violations.empty()) << "fault " << static_cast<int>(broken.fault);
    for (const Violation& found : outcome.violations) EXPECT_EQ(found.rule, broken.rule) << found.sentence;
  }
}

// One run of many workers, each as fast as it happens to be.
std::optional<Violation> random_run(const MachineShape& shape, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::uint64_t> slowness;
  for (int w = 0; w < shape.workers; ++w) slowness.push_back(1 + random.below(8));
  Machine machine(shape);
  History history;
  while (true) {
    const std::vector<Machine::Action> actions = machine.possible(shape);
    if (actions.empty()) return check_history(shape.policy, history, shape.workers);
    const Machine::Action action = actions[random.below(actions.size())];
    if (random.below(slowness[static_cast<std::size_t>(action.worker)]) != 0) continue;
    if (std::optional<Event> event = machine.perform(shape, action)) history.push_back(std::move(*event));
  }
}

TEST(HistoryOfAMachine, RandomRunsOfManyWorkersKeepThePolicy) {
  const std::uint64_t seeds = full() ? 200 : 3;
  for (const char* policy : {"bsp", "ssp:0", "ssp:3", "essp:3", "async", "softsync:4", "local:4", "delayed:2"}) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const MachineShape shape = {.policy = parse_policy(policy),
                                  .workers = 2 + static_cast<int>(mix(seed, 1) % 7),
                                  .clocks = 20,
                                  .writes = 1 + static_cast<int>(mix(seed, 2) % 3),
                                  .first_leaves = mix(seed, 3) % 2 == 0};
      const std::optional<Violation> found = random_run(shape, seed);
      EXPECT_FALSE(found) << policy << ", seed " << seed << ": " << found->sentence;
    }
  }
}

// What is too much to walk through in every order.
TEST(HistoryOfAMachine, RandomOrdersOfThreeWorkersAndThreeStepsKeepThePolicy) {
  const std::uint64_t seeds = full() ? 5000 : 200;
  for (const char* policy : kPolicies) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const MachineShape shape = {.policy = parse_policy(policy), .workers = 3, .first_leaves = seed % 2 == 0};
      const std::optional<Violation> found = random_run(shape, seed);
      EXPECT_FALSE(found) << policy << ", seed " << seed << ": " << found->sentence;
    }
  }
}

TEST(HistoryOfABrokenMachine, IsCaughtInRandomRunsOfManyWorkersToo) {
  const std::uint64_t seeds = full() ? 200 : 10;
  for (const Broken& broken : kBroken) {
    std::uint64_t caught = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const MachineShape shape = {
          .policy = parse_policy(broken.policy), .fault = broken.fault, .workers = 4, .clocks = 20};
      const std::optional<Violation> found = random_run(shape, seed);
      caught += found.has_value();
      if (found) {
        EXPECT_EQ(found->rule, broken.rule) << found->sentence;
      }
    }
    EXPECT_GT(caught, seeds / 2) << "fault " << static_cast<int>(broken.fault);
  }
}

}  // namespace
}  // namespace paceline
