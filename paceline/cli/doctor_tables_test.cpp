#include "paceline/cli/doctor_tables.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "paceline/cli/doctor_grid.hpp"
#include "paceline/cli/doctor_test_support.hpp"
#include "paceline/cli/doctor_words.hpp"

namespace paceline {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string all_of(const DoctorReport& report) { return render(report, choices(report), diagnose(report)); }

TEST(Grid, AlignsByWhatATerminalShows) {
  Grid grid({Grid::Align::left, Grid::Align::right});
  grid.add({"µs", "1"});
  grid.add({"longer", "1000"});
  EXPECT_EQ(grid.text(), "  µs         1\n  longer  1000\n");
}

TEST(Wrap, BreaksBetweenWordsOnly) {
  EXPECT_EQ(wrap("aa bb cc", 2, 7), "aa bb\n  cc\n");
  EXPECT_EQ(wrap("averylongword b", 2, 7), "averylongword\n  b\n");
}

TEST(Words, NumbersAsPeopleWriteThem) {
  EXPECT_EQ(bits_text(0.0119), "95.2 Mbit/s");
  EXPECT_EQ(bits_text(1.25), "10 Gbit/s");
  EXPECT_EQ(bits_text(50), "400 Gbit/s");
  EXPECT_EQ(three_digits(0.0956), "0.096");
  EXPECT_EQ(three_digits(1234.5), "1234");
  EXPECT_EQ(time_text(3.2e-5), "32 µs");
  EXPECT_EQ(time_text(-2.5), "-2.5 s");
  EXPECT_EQ(and_list({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(ranges_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(count_of(1, "core"), "1 core");
}

TEST(Tables, SayThatNothingIsWrong) {
  const std::string text = all_of(sound_job(2));
  EXPECT_TRUE(contains(text, "paceline 1.2.3: 4 workers on 2 hosts\n")) << text;
  EXPECT_TRUE(contains(text, "Findings\n  nothing is wrong\n")) << text;
}

TEST(Tables, ShowEveryLinkOfASmallJob) {
  DoctorReport report = sound_job(2);
  for (LinkReport& link : report.links) {
    if (link.from == 3 && link.to == 0) link.gbps = 0.123;
  }
  EXPECT_TRUE(contains(links_tables(report), "     3  b     0.984  9.60  40.0     -\n")) << links_tables(report);
}

TEST(Tables, FitIntoAHundredColumns) {
  DoctorReport small = sound_job(6, 1);
  for (HostReport& host : small.hosts) host.name = "node-" + host.name + ".cluster";
  for (LinkReport& link : small.links) link.gbps /= link.from == 2 ? 10 : 1;
  DoctorReport large = sound_job(20, 4);
  large.every_pair = false;
  large.hosts[3].clock_ahead = 17;
  for (const DoctorReport& report : {small, large}) {
    std::istringstream lines(all_of(report));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 100u) << line;
  }
}

TEST(Tables, ALargeJobIsSummedUp) {
  DoctorReport report = sound_job(20, 2);
  report.every_pair = false;
  for (LinkReport& link : report.links) {
    if (link.from == 4 && link.to == 8) link.gbps = 0.01;
  }
  const std::string text = links_tables(report);
  EXPECT_TRUE(contains(text, "    c (rank 4) to e (rank 8): 80 Mbit/s, 20 µs\n")) << text;
  EXPECT_TRUE(contains(text, "Not every pair was measured")) << text;
}

TEST(Tables, AFindingNamesItsHosts) {
  DoctorReport report = sound_job(8, 1);
  for (HostReport& host : report.hosts) host.settings["OMP_NUM_THREADS"] = "9";
  const std::string text = findings_text(diagnose(report));
  EXPECT_TRUE(contains(text, "  wrong     a, b, c, d and 4 others: OMP_NUM_THREADS=9")) << text;
}

TEST(Tables, NothingIsWrongButSomethingDoubtful) {
  DoctorReport report = sound_job(2);
  report.hosts[1].clock_ahead = 5;
  EXPECT_TRUE(
      contains(all_of(report), "  nothing is wrong, but:\n  doubtful  b: Its clock is 5 s ahead of that of a."));
}

}  // namespace
}  // namespace paceline
