#include "paceline/record/report.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/record/html.hpp"
#include "paceline/record/report_data.hpp"
#include "paceline/record/report_layers.hpp"

namespace paceline {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What the script would read.
json embedded(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t start = page.find(open) + open.size();
  return json::parse(page.substr(start, page.find("</script>", start) - start));
}

EpochMetrics epoch(int number, int workers, const std::string& host) {
  EpochMetrics metrics = {.epoch = number,
                          .step = number * 1000,
                          .seconds = number * 40.0,
                          .loss = 0.5,
                          .train_accuracy = 0.9,
                          .test_loss = 0.6,
                          .test_accuracy = 0.8765,
                          .samples_per_s = 12345,
                          .bytes_sent = 1 << 20};
  for (Rank rank = 0; rank < workers; ++rank) {
    WorkerTime worker = {.rank = rank, .host = host};
    worker.in(Activity::compute) = rank == 1 ? 30 : 15;
    worker.in(Activity::wait) = rank == 1 ? 0 : 15;
    metrics.workers.push_back(worker);
  }
  return metrics;
}

ReportInput sample(int workers = 4, const std::string& host = "node") {
  ReportInput input = {.config = {{"model", {{"name", "lenet"}, {"classes", 10}}},
                                  {"data", "digits"},
                                  {"workers", workers},
                                  {"plan", "ring"}},
                       .epochs = {epoch(1, workers, host), epoch(2, workers, host)},
                       .points = {},
                       .final = {{"stop_reason", "reached accuracy 0.9"}, {"test_accuracy", 0.9042}, {"steps", 20000}},
                       .traces = {}};
  for (int i = 1; i <= 20; ++i) {
    input.points.push_back({.step = i * 100,
                            .seconds = i * 4.0,
                            .loss = 1.0 / i,
                            .samples_per_s = 1000,
                            .wait_shares = std::vector<float>(static_cast<std::size_t>(workers), 0.1f)});
  }
  for (Rank rank = 0; rank < workers; ++rank) {
    input.traces.push_back({rank, host, 1, {{TimePoint(1s), 2ms, 5, -1, Activity::compute}}});
  }
  return input;
}

TEST(Report, BeginsWithWhatWasTrainedAndHowItEnded) {
  const std::string page = render_report(sample());
  EXPECT_TRUE(contains(page, "<h1>lenet on digits</h1>"));
  EXPECT_TRUE(contains(page, "4 workers · plan ring"));
  EXPECT_TRUE(contains(page, "<span class=\"status\">reached accuracy 0.9</span>"));
  EXPECT_TRUE(contains(page, "90.42%"));
  EXPECT_TRUE(contains(page, "<dd>12,345<small>samples/s</small>"));
  EXPECT_TRUE(contains(page, "<td>model.classes</td><td>10</td>"));
  EXPECT_TRUE(contains(page, "<td>steps</td><td>20,000</td>"));
}

TEST(Report, TellsWhatCrossedBetweenHostsOrSites) {
  ReportInput input = sample();
  EXPECT_TRUE(contains(render_report(input), "<small>by all workers</small>"));
  input.final["bytes_between_hosts"] = 2048;
  EXPECT_TRUE(contains(render_report(input), "<small>by all workers, 2.0 KiB between hosts</small>"));
  input.final["bytes_between_sites"] = 1024;
  input.config["between_sites"] = "when=local:4";
  EXPECT_TRUE(contains(render_report(input), "<small>by all workers, 1.0 KiB between sites</small>"));
  EXPECT_TRUE(contains(render_report(input), "plan ring · between sites when=local:4"));
}

TEST(Report, NamesTheStragglerAndMarksItsBar) {
  const std::string page = render_report(sample());
  EXPECT_TRUE(contains(page, "Rank 1 on host node computes 2.0× as long as the median of the others"));
  EXPECT_EQ(count(page, "class=\"worker straggler\""), 1u);
}

TEST(Report, CarriesTheDataOfItsCharts) {
  const json data = embedded(render_report(sample()));
  EXPECT_EQ(data["points"].size(), 20u);
  EXPECT_EQ(data["points"][1], json::parse("[200, 8.0, 0.5, 1000.0]"));
  EXPECT_EQ(data["epochs"][1]["test_accuracy"], 0.8765);
  EXPECT_EQ(data["waits"][0]["shares"].size(), 4u);
  EXPECT_EQ(data["trace"]["length"], 2000000);
  EXPECT_EQ(data["trace"]["ranks"][3]["events"][0], json::parse("[1, 0, 2000000, 5, -1]"));
}

TEST(Report, NeedsNothingFromElsewhere) {
  const std::string page = render_report(sample());
  EXPECT_TRUE(contains(page, "default-src 'none'"));
  EXPECT_FALSE(contains(page, "src=\""));
  EXPECT_FALSE(contains(page, "https:"));
  EXPECT_EQ(count(page, "http:"), 1u) << "the name space of SVG, which is not an address";
  EXPECT_FALSE(contains(page, "@import"));
  EXPECT_FALSE(contains(page, "{{"));
}

TEST(Report, TextFromOutsideStaysText) {
  const std::string evil = "</script><script>alert(1)</script><!-- & \"'{{data}} \xff";
  ReportInput input = sample(3, evil);
  input.config["model"] = evil;
  input.config[evil] = {{evil, evil}};
  input.final["stop_reason"] = evil;
  const std::string page = render_report(input);
  EXPECT_FALSE(contains(page, "<script>alert"));
  EXPECT_EQ(count(page, "<script"), count(render_report(sample(3)), "<script"));
  EXPECT_EQ(count(page, "</script>"), count(render_report(sample(3)), "</script>"));
  EXPECT_TRUE(contains(page, "&lt;/script&gt;&lt;script&gt;alert(1)"));
  EXPECT_TRUE(embedded(page)["trace"]["ranks"][0]["host"].get<std::string>().starts_with("</script><script>alert(1)"));
}

TEST(Report, AnEmptyRunHasAPage) {
  const std::string page = render_report({});
  EXPECT_TRUE(contains(page, "<h1>Training run</h1>"));
  EXPECT_TRUE(contains(page, "<span class=\"status bad\">no end recorded</span>"));
  EXPECT_TRUE(contains(page, "No epoch has finished."));
  EXPECT_TRUE(contains(page, "No times of workers were recorded."));
  EXPECT_TRUE(embedded(page)["epochs"].empty());
}

TEST(Report, ARunInterruptedBeforeItsFirstEpochShowsWhatThereIs) {
  ReportInput input = sample();
  input.epochs.clear();
  input.final = {{"stop_reason", "interrupted"}};
  const std::string page = render_report(input);
  EXPECT_TRUE(contains(page, "<span class=\"status bad\">interrupted</span>"));
  EXPECT_TRUE(contains(page, "<dd>1,000<small>samples/s</small>"));
  EXPECT_TRUE(contains(page, "no epoch finished"));
}

TEST(Report, LossesThatAreNotNumbersAreGapsAndAWarning) {
  ReportInput input = sample();
  for (std::size_t i = 15; i < 20; ++i) input.points[i].loss = std::nan("");
  input.epochs[1].loss = input.epochs[1].test_loss = std::nan("");
  const std::string page = render_report(input);
  EXPECT_TRUE(contains(page, "The training loss is not a number from step 1,600 on."));
  EXPECT_TRUE(embedded(page)["points"][19][2].is_null());
  EXPECT_TRUE(embedded(page)["epochs"][1]["test_loss"].is_null());
}

TEST(Report, ShowsEveryOneOfManyWorkers) {
  const std::string page = render_report(sample(64));
  EXPECT_EQ(count(page, "<span class=\"who\" title"), 64u);
  EXPECT_TRUE(contains(page, "class=\"workers dense\""));
}

TEST(Report, ASingleWorkerAndASinglePointAreEnough) {
  ReportInput input = sample(1);
  input.epochs.resize(1);
  input.points.resize(1);
  const std::string page = render_report(input);
  EXPECT_TRUE(contains(page, "1 worker · plan ring"));
  EXPECT_TRUE(contains(page, "1 epoch<"));
  EXPECT_TRUE(contains(page, "A single worker: there is nobody to wait for."));
}

TEST(Report, OfNumbersShowsTheirErrorInsteadOfAccuracies) {
  ReportInput input = sample();
  input.final = {{"stop_reason", "all epochs done"}};
  for (EpochMetrics& metrics : input.epochs) {
    metrics.loss = 4;
    metrics.test_rmse = 1.5;
  }
  const std::string page = render_report(input);
  EXPECT_TRUE(contains(page, "<dt>Test RMSE</dt><dd>1.5<small>"));
  EXPECT_TRUE(contains(page, "<h2>Root mean squared error</h2>"));
  EXPECT_TRUE(contains(page, "<th scope=\"col\">Train RMSE</th>"));
  EXPECT_TRUE(contains(page, "<td>2.0000</td>"));
  EXPECT_FALSE(contains(page, "Test acc."));
  EXPECT_EQ(embedded(page)["epochs"][0]["test_rmse"], 1.5);
}

// Two epochs of 1000 steps each; the four workers computed 15, 30, 15 and 15 seconds in each of them.
TEST(Report, TellsOfEachLayerWhatItCosts) {
  ReportInput input = sample();
  EXPECT_FALSE(contains(render_report(input), "<h2>Layers</h2>"));
  EXPECT_DOUBLE_EQ(compute_seconds_of(input), 2 * 75.0 / 4 / 2000);
  input.layers = {{"conv", 1'000, 1.5e9}, {"fc <last>", 3'000, 0.5e9}};
  input.compute_seconds_per_step = 0.001;
  input.config["batch"] = 32;
  const std::string page = render_report(input);
  EXPECT_TRUE(contains(page, "<h2>Layers</h2>"));
  EXPECT_TRUE(contains(page, "2S(n−1)/n"));
  EXPECT_TRUE(contains(page, "4 workers with batch 32"));
  // 12 kB: 18 kB on the ring, 144 µs at 1 Gbit/s against a quarter of a millisecond.
  EXPECT_TRUE(contains(page,
                       "<td>fc &lt;last&gt;</td><td>3,000</td><td>500 M</td><td>75.0%</td><td>0.25 ms</td>"
                       "<td>36.5%</td><td>5.4%</td><td>0.6%</td>"));
  EXPECT_TRUE(contains(page, "<td>All</td><td>4,000</td><td>2.00 G</td><td>100.0%</td>"));
  input.config["workers"] = 1;
  EXPECT_TRUE(contains(render_report(input), "A single worker sends nothing."));
}

TEST(Thinned, KeepsFewPointsAndAveragesMany) {
  std::vector<StepPoint> points;
  for (int i = 0; i < 10; ++i)
    points.push_back({.step = i, .seconds = 1.0 * i, .loss = 1.0 * i, .samples_per_s = 5, .wait_shares = {1, 0}});
  EXPECT_EQ(thinned(points, 10).size(), 10u);
  EXPECT_TRUE(thinned({}, 10).empty());
  points[1].loss = std::nan("");
  points[9].loss = std::nan("");
  const std::vector<StepPoint> fewer = thinned(points, 4);
  ASSERT_EQ(fewer.size(), 4u);
  EXPECT_EQ(fewer[0].step, 2);
  EXPECT_EQ(fewer[0].loss, 1);
  EXPECT_EQ(fewer[1].loss, 4);
  EXPECT_TRUE(std::isnan(fewer[3].loss));
  EXPECT_EQ(fewer[2].wait_shares, (std::vector<float>{1, 0}));
}

TEST(Html, StringsOfAnyBytesAreEscaped) {
  EXPECT_EQ(html_escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(script_json({{"a", "</script>"}}), R"({"a":"\u003c/script>"})");
  EXPECT_EQ(json_text("plain"), "plain");
  EXPECT_EQ(json_text("\xff"), "\xEF\xBF\xBD");
  EXPECT_EQ(json_text(json::array({1, "a"})), "[1,\"a\"]");
}

}  // namespace
}  // namespace paceline
