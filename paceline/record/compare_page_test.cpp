#include "paceline/record/compare_page.hpp"

#include <gtest/gtest.h>

#include "paceline/record/compare_test_support.hpp"

namespace paceline {
namespace {

using nlohmann::json;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

json embedded(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t start = page.find(open) + open.size();
  return json::parse(page.substr(start, page.find("</script>", start) - start));
}

CompareInput sample() {
  CompareInput input{
      .plans = {{.name = "bsp", .options = "--where allreduce"}, {.name = "ring", .options = "--where ring"}},
      .options = {.target = CompareTarget{CompareTarget::Metric::accuracy, 0.8}},
      .common = "--data digits"};
  for (const std::uint64_t seed : {1, 2}) {
    input.plans[0].runs.push_back(made_up_run(seed, {0.5, 0.9}, 10 + static_cast<double>(seed)));
    input.plans[1].runs.push_back(made_up_run(seed, {0.5, 0.9}, 30 + static_cast<double>(seed)));
  }
  return input;
}

TEST(ComparePage, SaysWhoWinsAndWhatTheyWereGiven) {
  const std::string page = render_comparison(sample());
  EXPECT_TRUE(contains(page, "<h1>2 plans compared</h1>"));
  EXPECT_TRUE(contains(page, "bsp reaches accuracy=0.8 first"));
  EXPECT_TRUE(contains(page, "<td>ring</td><td>--where ring</td>"));
  EXPECT_TRUE(contains(page, "<td>all of them</td><td>--data digits</td>"));
  EXPECT_TRUE(contains(page, "2 seeds · target accuracy=0.8"));
  EXPECT_TRUE(contains(page, "bands reach from the least to the most"));
}

TEST(ComparePage, CarriesCurvesWithBands) {
  const json data = embedded(render_comparison(sample()));
  EXPECT_EQ(data["plans"][0]["name"], "bsp");
  EXPECT_EQ(data["plans"][0]["points"][1]["seconds"], 23.0);
  EXPECT_EQ(data["plans"][0]["points"][1]["quality"], json::parse("[0.9, 0.9, 0.9]"));
  EXPECT_EQ(data["target"]["value"], 0.8);
}

TEST(ComparePage, OfASingleSeedHasNoBands) {
  CompareInput input = sample();
  for (ComparedPlan& plan : input.plans) plan.runs.resize(1);
  const std::string page = render_comparison(input);
  EXPECT_EQ(embedded(page)["plans"][0]["points"][1]["loss"].size(), 1u);
  EXPECT_TRUE(contains(page, "there is nothing to draw a band of"));
  EXPECT_TRUE(contains(page, "another seed may turn that round"));
}

TEST(ComparePage, ShowsWhatFailed) {
  CompareInput input = sample();
  input.plans[1].runs[1] = {.seed = 2, .failure = "no room for <b> more"};
  const std::string page = render_comparison(input);
  EXPECT_TRUE(contains(page, "ring failed with seed 2: no room for &lt;b&gt; more"));
  EXPECT_TRUE(contains(page, "some runs failed"));
}

TEST(ComparePage, NeedsNothingFromElsewhereAndKeepsTextText) {
  CompareInput input = sample();
  input.plans[0].name = input.common = "</script><script>alert(1)</script>";
  const std::string page = render_comparison(input);
  EXPECT_FALSE(contains(page, "<script>alert"));
  EXPECT_FALSE(contains(page, "https:"));
  EXPECT_FALSE(contains(page, "src=\""));
  EXPECT_FALSE(contains(page, "{{"));
  EXPECT_TRUE(contains(page, "default-src 'none'"));
}

TEST(ComparePage, OfNothingIsAPage) {
  const std::string page = render_comparison({});
  EXPECT_TRUE(contains(page, "0 plans compared"));
  EXPECT_TRUE(contains(page, "No plan has a result"));
}

}  // namespace
}  // namespace paceline
