#include "paceline/record/compare_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/record/compare_tables.hpp"
#include "paceline/record/compare_test_support.hpp"

namespace paceline {
namespace {

const CompareTarget kTo80 = {CompareTarget::Metric::accuracy, 0.8};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Each seed's accuracy after two epochs; an epoch takes `seconds`.
ComparedPlan plan(const std::string& name, const std::vector<double>& seconds, double last = 0.9) {
  ComparedPlan made{.name = name, .options = "--where ring"};
  std::uint64_t seed = 0;
  for (const double each : seconds) made.runs.push_back(made_up_run(++seed, {0.5, last}, each));
  return made;
}

std::string verdict(const std::vector<ComparedPlan>& plans, const CompareOptions& options) {
  return verdict_of(figures_of(plans, options), options, goal_of(plans));
}

TEST(Spread, IsMeanAndDeviationOfTheSample) {
  const Spread spread = spread_of({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(spread.count, 8);
  EXPECT_DOUBLE_EQ(spread.mean, 5);
  EXPECT_NEAR(spread.deviation, std::sqrt(32.0 / 7), 1e-12);
  EXPECT_EQ(spread.least, 2);
  EXPECT_EQ(spread.most, 9);
}

TEST(Spread, OfOneValueHasNoInterval) {
  const Spread spread = spread_of({3, std::nan("")});
  EXPECT_EQ(spread.count, 1);
  EXPECT_EQ(spread.mean, 3);
  EXPECT_TRUE(std::isnan(spread.deviation));
  EXPECT_FALSE(spread.has_interval());
  EXPECT_FALSE(overlap(spread, spread));
  EXPECT_TRUE(std::isnan(spread_of({}).mean));
}

TEST(Spread, IntervalsOverlapWhereTheyTouch) {
  EXPECT_TRUE(overlap(spread_of({1, 3}), spread_of({2, 4})));
  EXPECT_FALSE(overlap(spread_of({1, 1.1}), spread_of({2, 2.1})));
}

TEST(CompareTarget, WordsAreReadAndWrongOnesRefused) {
  EXPECT_EQ(parse_compare_target("accuracy=85%").value, 0.85);
  EXPECT_EQ(parse_compare_target("loss=0.3").metric, CompareTarget::Metric::loss);
  EXPECT_EQ(parse_compare_target("rmse=2").text(), "rmse=2");
  for (const char* wrong : {"", "accuracy", "accuracy=", "accuracy=1.2", "accuracy=x", "speed=3", "loss=3x", "0.85"})
    EXPECT_THROW(parse_compare_target(wrong), Error) << wrong;
}

TEST(Reach, LiesOnTheLineBetweenTwoEvaluations) {
  // From 0.5 after 10 s to 0.9 after 20 s: 0.8 is three quarters of the way.
  const auto there = reach(made_up_run(1, {0.5, 0.9, 0.95}, 10), kTo80);
  ASSERT_TRUE(there.has_value());
  EXPECT_DOUBLE_EQ(there->seconds, 17.5);
  EXPECT_DOUBLE_EQ(there->epochs, 1.75);
  EXPECT_DOUBLE_EQ(there->bytes, 1750);
}

TEST(Reach, AFirstEvaluationThatMeetsTheTargetCountsAsItIs) {
  EXPECT_DOUBLE_EQ(reach(made_up_run(1, {0.85, 0.9}, 10), kTo80)->seconds, 10);
}

TEST(Reach, IsTheFirstTimeAlsoOfARunThatFallsBack) {
  EXPECT_DOUBLE_EQ(reach(made_up_run(1, {0.8, 0.6, 0.9}, 10), kTo80)->seconds, 10);
  EXPECT_FALSE(reach(made_up_run(1, {0.5, 0.7}, 10), kTo80).has_value());
  EXPECT_FALSE(reach(made_up_run(1, {}, 10), kTo80).has_value());
}

TEST(Reach, OfALossGoesDown) {
  const auto there = reach(made_up_run(1, {0.5, 0.9}, 10), {CompareTarget::Metric::loss, 0.3});
  EXPECT_DOUBLE_EQ(there->seconds, 15);
  EXPECT_FALSE(reach(made_up_run(1, {0.5, 0.9}, 10), {CompareTarget::Metric::rmse, 0.3}).has_value());
}

TEST(Reach, LooksAtTheHeldOutPartWhereThereIsOne) {
  ComparedRun run = made_up_run(1, {0.5, 0.9}, 10);
  for (EpochMetrics& epoch : run.epochs) epoch.valid_accuracy = epoch.epoch == 1 ? 0.8 : 0.85;
  EXPECT_DOUBLE_EQ(reach(run, kTo80)->seconds, 10);
}

TEST(Reach, ARunThatStopsWithinAnEpochIsEvaluatedThere) {
  ComparedRun run = made_up_run(1, {0.5}, 10);
  run.final["step"] = 15;
  run.final["seconds"] = 16;
  run.final["test_accuracy"] = 0.9;
  EXPECT_DOUBLE_EQ(reach(run, kTo80)->seconds, 14.5);
  EXPECT_DOUBLE_EQ(reach(run, kTo80)->epochs, 1.375);
}

TEST(Figures, AreOfCompleteRunsOnly) {
  ComparedPlan some = plan("a", {10, 12});
  some.runs.push_back({.seed = 3, .failure = "out of memory"});
  const PlanFigures figures = figures_of({some}, {.target = kTo80, .price = 1.8}).front();
  EXPECT_EQ(figures.complete, 2);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.reached, 2);
  EXPECT_DOUBLE_EQ(figures.seconds.mean, 22);
  EXPECT_DOUBLE_EQ(figures.seconds_to.mean, 19.25);
  EXPECT_DOUBLE_EQ(figures.cost.mean, 1.8 * 2 * 19.25 / 3600);
  EXPECT_DOUBLE_EQ(figures_of({some}, {.price = 1.8}).front().cost.mean, 1.8 * 2 * 22 / 3600);
}

TEST(Verdict, NamesAWinnerWhoseIntervalIsItsOwn) {
  EXPECT_EQ(verdict({plan("slow", {20, 22}), plan("quick", {10, 11})}, {.target = kTo80}),
            "quick reaches accuracy=0.8 first: 18.4 s ± 1.24 s, next is slow (36.8 s ± 2.47 s); the intervals do not "
            "overlap.");
}

TEST(Verdict, SaysThatIntervalsOverlap) {
  const std::string text =
      verdict({plan("a", {10, 14}), plan("b", {11, 13.2}), plan("c", {40, 41})}, {.target = kTo80});
  EXPECT_TRUE(
      contains(text, "a reaches accuracy=0.8 first: 21.0 s ± 4.95 s; its interval overlaps with that of b (21.2 s"))
      << text;
  EXPECT_TRUE(contains(text, "these seeds do not decide")) << text;
  EXPECT_FALSE(contains(text, "c (")) << text;
}

TEST(Verdict, OfASingleSeedDecidesNothing) {
  const std::string text = verdict({plan("a", {10}), plan("b", {20})}, {.target = kTo80});
  EXPECT_EQ(text,
            "a reaches accuracy=0.8 first: 17.5 s with a single seed, against b (35.0 s); another seed may turn that "
            "round.");
  EXPECT_FALSE(contains(text, "±"));
}

TEST(Verdict, APlanThatMissedTheTargetCannotWin) {
  ComparedPlan lucky = plan("lucky", {1, 1});
  lucky.runs[1] = made_up_run(2, {0.5, 0.6}, 1);
  const std::string text = verdict({lucky, plan("sure", {10, 11}), plan("never", {1, 1}, 0.6)}, {.target = kTo80});
  EXPECT_TRUE(text.starts_with("sure reaches accuracy=0.8 first")) << text;
  EXPECT_TRUE(contains(text, "lucky reached it with 1 of 2 seeds only. never did not reach it.")) << text;
  EXPECT_TRUE(verdict({lucky}, {.target = kTo80}).starts_with("No plan reached accuracy=0.8 with all its seeds."));
}

TEST(Verdict, WithoutATargetIsAboutTheEnd) {
  const std::string text = verdict({plan("a", {10, 10}, 0.8), plan("b", {10, 10}, 0.9)}, {});
  EXPECT_TRUE(text.starts_with("b has the highest test accuracy: 90.00% ± 0.00%, next is a")) << text;
}

TEST(Band, IsOverTheSeedsThatGotThatFar) {
  ComparedPlan made = plan("a", {10, 12});
  made.runs[0] = made_up_run(1, {0.5}, 10);
  made.runs[1] = made_up_run(2, {0.7, 0.9}, 12);
  made.runs.push_back({.seed = 3, .failure = "killed"});
  const std::vector<BandPoint> band = band_of(made);
  ASSERT_EQ(band.size(), 2u);
  EXPECT_DOUBLE_EQ(band[0].seconds, 11);
  EXPECT_DOUBLE_EQ(band[0].accuracy.least, 0.5);
  EXPECT_DOUBLE_EQ(band[0].accuracy.most, 0.7);
  EXPECT_FALSE(band[1].accuracy.has_interval());
  EXPECT_DOUBLE_EQ(band[1].seconds, 24);
}

TEST(CompareTable, StandsInColumnsAndShowsDeviationsOfSeveralSeedsOnly) {
  const CompareOptions options{.target = kTo80, .price = 3};
  const std::vector<ComparedPlan> plans = {
      plan("quick", {10, 12}), plan("one", {20}), {.name = "bad", .runs = {{.seed = 1, .failure = "no"}}}};
  const CompareTable table = compare_table(figures_of(plans, options), options, Score::accuracy);
  EXPECT_EQ(table.head[7], "s to accuracy=0.8");
  EXPECT_EQ(table.rows[0][2], "90.00 ± 0.00");
  EXPECT_EQ(table.rows[0][7], "19.2 ± 2.5");
  EXPECT_EQ(table.rows[1][7], "35.0");
  EXPECT_EQ(table.rows[2][1], "1, 1 failed");
  EXPECT_EQ(table.rows[2][4], "–");
  const std::string text = terminal_table(table);
  EXPECT_TRUE(text.starts_with("plan         seeds")) << text;
}

TEST(CompareTable, OfNumbersHasTheirError) {
  ComparedPlan made = plan("a", {10, 12});
  for (ComparedRun& run : made.runs) {
    for (EpochMetrics& epoch : run.epochs) epoch.test_rmse = 2;
  }
  EXPECT_EQ(goal_of({made}), Score::rmse);
  const CompareTable table = compare_table(figures_of({made}, {}), {}, Score::rmse);
  EXPECT_EQ(table.head[2], "RMSE");
  EXPECT_EQ(table.rows[0][2], "2.0000 ± 0.0000");
  EXPECT_TRUE(contains(verdict({made}, {}), "smallest test RMSE: 2"));
}

}  // namespace
}  // namespace paceline
