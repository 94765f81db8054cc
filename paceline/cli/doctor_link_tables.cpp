// The links of a report, as matrices where they are few enough to be read and in words where they are not.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paceline/cli/doctor_grid.hpp"
#include "paceline/cli/doctor_tables.hpp"
#include "paceline/cli/doctor_words.hpp"
#include "paceline/cli/measure.hpp"

namespace paceline {
namespace {

using enum Grid::Align;
constexpr std::size_t kWidestMatrix = 10;
constexpr std::size_t kSlowest = 5;

using Links = std::map<std::pair<int, int>, LinkReport>;

std::vector<int> ranks_in_matrix(const DoctorReport& report) {
  std::vector<int> ranks;
  for (const HostReport& host : report.hosts) {
    if (report.every_pair) ranks.insert(ranks.end(), host.ranks.begin(), host.ranks.end());
    if (!report.every_pair) ranks.push_back(host.ranks.front());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

template <class Cell>
std::string matrix(const DoctorReport& report, const std::vector<int>& ranks, const Links& links, Cell&& cell) {
  Grid grid({right, left, right});
  std::vector<std::string> header = {"rank", "host"};
  for (const int rank : ranks) header.push_back(std::to_string(rank));
  grid.add(header);
  for (const int from : ranks) {
    std::vector<std::string> row = {std::to_string(from), report.host_of(from).name};
    for (const int to : ranks) {
      const auto found = links.find({from, to});
      row.push_back(found == links.end() ? "-" : cell(found->second));
    }
    grid.add(row);
  }
  return grid.text();
}

std::string in_words(const DoctorReport& report, const LinkReport& link) {
  return fmt::format("{} (rank {}) to {} (rank {}): {}, {}", report.host_of(link.from).name, link.from,
                     report.host_of(link.to).name, link.to, bits_text(link.gbps), time_text(link.latency_us * 1e-6));
}

std::string summary(const DoctorReport& report, std::vector<LinkReport> links, const std::string& which) {
  if (links.empty()) return {};
  std::vector<double> rates, times;
  for (const LinkReport& link : links) {
    rates.push_back(link.gbps);
    times.push_back(link.latency_us);
  }
  std::sort(links.begin(), links.end(), [](const auto& a, const auto& b) { return a.gbps < b.gbps; });
  std::string text = fmt::format("  {} {}, median {}, {}; the slowest:\n", links.size(), which,
                                 bits_text(median(rates)), time_text(median(times) * 1e-6));
  for (std::size_t i = 0; i < std::min(kSlowest, links.size()); ++i) text += "    " + in_words(report, links[i]) + "\n";
  return text;
}

std::string matrices(const DoctorReport& report, const std::vector<int>& ranks) {
  Links links;
  for (const LinkReport& link : report.links) links[{link.from, link.to}] = link;
  return "Latency between ranks, µs (half a round trip)\n" +
         matrix(report, ranks, links, [](const LinkReport& link) { return three_digits(link.latency_us); }) +
         "\nBandwidth from row to column, Gbit/s\n" +
         matrix(report, ranks, links, [](const LinkReport& link) { return three_digits(link.gbps * 8); });
}

}  // namespace

std::string links_tables(const DoctorReport& report) {
  if (report.links.empty()) return {};
  std::vector<LinkReport> near, far;
  for (const LinkReport& link : report.links) (report.on_one_host(link.from, link.to) ? near : far).push_back(link);
  const auto ranks = ranks_in_matrix(report);
  const bool drawn = ranks.size() <= kWidestMatrix && ranks.size() > 1;
  std::string text = drawn ? matrices(report, ranks) : "Links\n" + summary(report, far, "links between hosts");
  if (report.every_pair) return text;
  const std::string measured =
      "Not every pair was measured: one rank of each host with that of each other, and inside each host up to eight "
      "pairs of neighbours.";
  return text + "  " + wrap(measured, 2) + summary(report, near, "links inside hosts");
}

}  // namespace paceline
