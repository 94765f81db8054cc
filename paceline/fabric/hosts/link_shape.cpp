#include "paceline/fabric/hosts/link_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// "5ms" with {"ms", 1e-3}: 0.005. nullopt: no positive number, or none of these units behind it.
std::optional<double> quantity(std::string_view text, const std::map<std::string_view, double>& units) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || !(value > 0) || value > 1e15) return std::nullopt;
  const auto unit = units.find(text.substr(static_cast<std::size_t>(parsed.ptr - text.data())));
  return unit == units.end() ? std::nullopt : std::optional(value * unit->second);
}

// What lies outside is a slip of the pen.
constexpr double kSlowest = 1e3, kFastest = 1e12;
constexpr double kLongest = 10;

bool take_part(std::string_view part, LinkShape& shape) {
  static const std::map<std::string_view, double> rates = {{"bit/s", 0.125},  {"kbit/s", 125}, {"Mbit/s", 125e3},
                                                           {"Gbit/s", 125e6}, {"B/s", 1},      {"kB/s", 1e3},
                                                           {"MB/s", 1e6},     {"GB/s", 1e9}};
  static const std::map<std::string_view, double> spans = {{"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  if (const auto rate = quantity(part, rates)) {
    const bool first = std::exchange(shape.bytes_per_second, *rate) == 0;
    return first && *rate >= kSlowest && *rate <= kFastest;
  }
  if (const auto span = quantity(part, spans)) {
    const bool first = shape.latency == Duration(0);
    shape.latency = Duration(static_cast<Duration::rep>(*span * 1e9));
    return first && *span <= kLongest;
  }
  return false;
}

}  // namespace

LinkShape parse_link(std::string_view text) {
  LinkShape shape{.text = std::string(text)};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (!take_part(text.substr(begin, end - begin), shape)) {
      throw Error(Code::invalid, fmt::format("a link cannot be '{}': give a rate from 8kbit/s to 1000GB/s, a latency "
                                             "of at most 10s, or both, as 100Mbit/s,5ms",
                                             text));
    }
    begin = end + 1;
  }
  return shape;
}

}  // namespace paceline
