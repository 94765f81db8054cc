#include "paceline/record/straggler.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline {
namespace {

// Workers of a step in lockstep: whoever is done early waits until the slowest is.
std::vector<WorkerTime> lockstep(const std::vector<double>& compute) {
  double longest = 0;
  for (const double seconds : compute) longest = std::max(longest, seconds);
  std::vector<WorkerTime> workers;
  for (std::size_t i = 0; i < compute.size(); ++i) {
    WorkerTime worker = {.rank = static_cast<Rank>(i), .host = "host" + std::to_string(i)};
    worker.in(Activity::load) = 1;
    worker.in(Activity::compute) = compute[i];
    worker.in(Activity::communicate) = 5;
    worker.in(Activity::wait) = longest - compute[i];
    worker.in(Activity::update) = 1;
    workers.push_back(worker);
  }
  return workers;
}

TEST(Straggler, IsNamedWithItsHostAndWhatItCosts) {
  const StragglerVerdict verdict = find_straggler(lockstep({20, 36, 20, 20}));
  EXPECT_EQ(verdict.straggler, 1);
  EXPECT_EQ(
      verdict.sentence,
      "rank 1 on host host1 computes 1.8× as long as the median of the others (36.0 s against 20.0 s); the others "
      "wait for it 37% of their time.");
}

TEST(Straggler, IsFoundAmongTwo) {
  const StragglerVerdict verdict = find_straggler(lockstep({40, 20}));
  EXPECT_EQ(verdict.straggler, 0);
  EXPECT_NE(verdict.sentence.find("2.0× as long as the other "), std::string::npos) << verdict.sentence;
  EXPECT_NE(verdict.sentence.find("the other waits for it"), std::string::npos) << verdict.sentence;
}

TEST(Straggler, MayLackDataInsteadOfSpeed) {
  std::vector<WorkerTime> workers = lockstep({20, 20, 20});
  workers[2].in(Activity::load) = 16;
  workers[0].in(Activity::load) = workers[1].in(Activity::load) = 0;
  const StragglerVerdict verdict = find_straggler(workers);
  EXPECT_EQ(verdict.straggler, 2);
  EXPECT_NE(verdict.sentence.find("rank 2 on host host2 waits for data more than 100× as long"), std::string::npos)
      << verdict.sentence;
  EXPECT_NE(verdict.sentence.find("the others hardly wait for it"), std::string::npos);
}

TEST(Straggler, SeveralAreListed) {
  const StragglerVerdict verdict = find_straggler(lockstep({20, 40, 20, 20, 50, 20, 20}));
  EXPECT_EQ(verdict.straggler, 4);
  EXPECT_TRUE(verdict.sentence.ends_with("Slow too: rank 1.")) << verdict.sentence;
}

TEST(Straggler, OrdinaryDifferencesAreNone) {
  const StragglerVerdict verdict = find_straggler(lockstep({20, 21, 20.5, 19}));
  EXPECT_EQ(verdict.straggler, kNoRank);
  EXPECT_EQ(verdict.sentence.find("no worker stands out; waiting takes "), 0u) << verdict.sentence;
}

TEST(Straggler, ATinyPartOfTheTimeIsNotWorthNaming) {
  std::vector<WorkerTime> workers = lockstep({1, 2, 1});
  for (WorkerTime& worker : workers) worker.in(Activity::communicate) = 1000;
  EXPECT_EQ(find_straggler(workers).straggler, kNoRank);
}

TEST(Straggler, NobodyAndASingleWorkerHaveNone) {
  EXPECT_EQ(find_straggler({}).sentence, "no times of workers were recorded");
  EXPECT_EQ(find_straggler(lockstep({20})).sentence, "a single worker: there is nobody to wait for");
  EXPECT_EQ(find_straggler({WorkerTime{.rank = 0}, WorkerTime{.rank = 1}}).straggler, kNoRank);
}

TEST(WorkerTotals, AddUpTheEpochsByRank) {
  EpochMetrics first, second;
  first.workers = lockstep({20, 30});
  second.workers = lockstep({1, 2, 3});
  second.workers[1].host = "moved";
  const std::vector<WorkerTime> totals = worker_totals({first, second});
  ASSERT_EQ(totals.size(), 3u);
  EXPECT_EQ(totals[1].in(Activity::compute), 32);
  EXPECT_EQ(totals[1].host, "moved");
  EXPECT_EQ(totals[2].rank, 2);
}

}  // namespace
}  // namespace paceline
