#include "paceline/cli/doctor_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline {

std::string count_of(int count, const std::string& thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string cores_text(const HostReport& host) {
  if (host.usable_cores() < host.cores)
    return fmt::format("{:.3g} of {}", host.usable_cores(), count_of(host.cores, "core"));
  return count_of(host.cores, "core");
}

std::string bits_text(double gbps) {
  const double mbit = gbps * 8000;
  const double number = mbit < 1000 ? mbit : mbit / 1000;
  const std::string digits = number >= 100 ? fmt::format("{:.0f}", number) : fmt::format("{:.3g}", number);
  return digits + (mbit < 1000 ? " Mbit/s" : " Gbit/s");
}

std::string three_digits(double number) {
  if (number >= 100) return fmt::format("{:.0f}", number);
  if (number >= 10) return fmt::format("{:.1f}", number);
  return number >= 1 ? fmt::format("{:.2f}", number) : fmt::format("{:.3f}", number);
}

std::string time_text(double seconds) {
  const double size = std::abs(seconds);
  if (size < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (size < 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  return size < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

std::string and_list(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[first]);
    if (last > first) text += "-" + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace paceline
