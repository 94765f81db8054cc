// The promises of each policy, checked on what workers really read, in virtual time and among threads. Real processes:
// tests/process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "paceline/server/server_history_support.hpp"

namespace paceline {
namespace {

using server_test::run_rank;
using server_test::TestJob;
using server_test::work;

const char* const kPolicies[] = {"bsp", "ssp:0", "ssp:1", "ssp:3", "essp:0", "essp:2", "async"};

void expect_kept(const TestJob& job, std::vector<History> histories, const std::string& how) {
  const auto broken = check_history(job.policy, merge_histories(std::move(histories)), job.workers);
  EXPECT_FALSE(broken) << job.policy.text() << ", " << how << ": " << broken->sentence;
}

TestJob job_of_seed(std::uint64_t seed, const char* policy) {
  Random random(seed, 1);
  return {.workers = 1 + static_cast<int>(random.below(4)),
          .servers = 1 + static_cast<int>(random.below(3)),
          .policy = parse_policy(policy)};
}

// What the workers of a run in virtual time wrote down, with delays, reordering and slow workers.
std::vector<History> run_seed(std::uint64_t seed, const TestJob& job) {
  const int ranks = job.workers + job.servers;
  std::vector<History> histories(static_cast<std::size_t>(job.workers));
  const SimReport report =
      run_sim({.ranks = ranks, .seed = seed, .faults = Faults::random_delays(seed, ranks)}, [&](Endpoint& endpoint) {
        run_rank(job, endpoint, [&](Session& session, Endpoint& own) {
          History& history = histories[static_cast<std::size_t>(own.rank())];
          work(job, session, own, 6, [&](Event event) { history.push_back(std::move(event)); });
          EXPECT_EQ(session.staleness().violations(), 0);
        });
      });
  EXPECT_EQ(report.stopped, "") << report.describe();
  report.rethrow();
  return histories;
}

TEST(ServerHistory, EveryReadKeepsThePolicysPromiseUnderDelaysReorderingAndSlowWorkers) {
  const std::uint64_t seeds = std::getenv("PACELINE_FULL") == nullptr ? 100 : 10'000;
  for (std::uint64_t seed = 0; seed < seeds && !testing::Test::HasFailure(); ++seed) {
    const TestJob job = job_of_seed(seed, kPolicies[seed % std::size(kPolicies)]);
    expect_kept(job, run_seed(seed, job), fmt::format("seed {}", seed));
  }
}

TEST(ServerHistory, EveryReadKeepsThePolicysPromiseAmongThreads) {
  for (const char* policy : kPolicies) {
    const TestJob job{.workers = 3, .servers = 2, .policy = parse_policy(policy)};
    std::vector<History> histories(3);
    server_test::run_job(job, [&](Session& session, Endpoint& endpoint) {
      History& history = histories[static_cast<std::size_t>(endpoint.rank())];
      work(job, session, endpoint, 100, [&](Event event) { history.push_back(std::move(event)); });
    });
    expect_kept(job, std::move(histories), "threads");
  }
}

// Servers and workers that promise less than what they are held against: that is how each broken server would look.
struct Broken {
  const char* what;
  const char* kept;     // what the job does
  const char* claimed;  // what it is held against
  std::set<Violation::Rule> rules;
};
const Broken kBroken[] = {
    {"answers pulls a clock too early", "ssp:1", "ssp:0", {Violation::Rule::begin, Violation::Rule::bound}},
    {"answers pulls whenever they come", "async", "ssp:2", {Violation::Rule::begin, Violation::Rule::bound}},
    {"applies at once what bsp keeps back", "ssp:0", "bsp", {Violation::Rule::early}},
    {"keeps own updates back", "softsync:2", "async", {Violation::Rule::own_writes}},
};

TEST(ServerHistory, OfABrokenServerIsCaughtByTheRuleThatItBreaks) {
  for (const Broken& broken : kBroken) {
    int caught = 0;
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
      TestJob job = job_of_seed(seed, broken.kept);
      job.workers = 2 + job.workers % 2;
      const auto found = check_history(parse_policy(broken.claimed), merge_histories(run_seed(seed, job)), job.workers);
      if (!found) continue;
      ++caught;
      EXPECT_TRUE(broken.rules.contains(found->rule)) << broken.what << ": " << found->sentence;
    }
    EXPECT_GE(caught, 3) << broken.what;
  }
}

}  // namespace
}  // namespace paceline
