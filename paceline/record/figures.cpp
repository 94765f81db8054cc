#include "paceline/record/figures.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace paceline {
namespace {

constexpr const char* kUnknown = "–";
constexpr double kLargest = 9e18;  // still fits in 64 bits

bool printable(double value) { return std::isfinite(value) && std::abs(value) < kLargest; }

}  // namespace

std::string with_thousands(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string rounded(double value) {
  if (!printable(value)) return kUnknown;
  const double size = std::abs(value);
  if (size >= 99.95 || size == 0) return with_thousands(std::llround(value));
  return fmt::format("{:.{}f}", value, size >= 9.995 ? 1 : 2);
}

std::string percent(double share, int decimals) {
  return printable(share) ? fmt::format("{:.{}f}%", share * 100, decimals) : kUnknown;
}

std::string clock_time(double seconds) {
  if (!printable(seconds)) return kUnknown;
  const std::int64_t all = std::llround(seconds < 0 ? 0 : seconds);
  const std::int64_t minutes = all / 60;
  if (minutes < 60) return fmt::format("{}:{:02}", minutes, all % 60);
  return fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, all % 60);
}

std::string time_span(double seconds) {
  if (!printable(seconds)) return kUnknown;
  if (seconds != 0 && std::abs(seconds) < 0.9995)
    return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 2 : 0);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const std::int64_t all = std::llround(seconds);
  if (all < 3600) return fmt::format("{} min {} s", all / 60, all % 60);
  return fmt::format("{} h {} min", with_thousands(all / 3600), all / 60 % 60);
}

std::string byte_count(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace paceline
