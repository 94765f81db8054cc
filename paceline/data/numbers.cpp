#include "paceline/data/numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace paceline {
namespace {

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

}  // namespace

std::string_view trimmed(std::string_view cell) {
  const std::size_t first = cell.find_first_not_of(" \t");
  if (first == std::string_view::npos) return cell.substr(0, 0);
  return cell.substr(first, cell.find_last_not_of(" \t") - first + 1);
}

std::optional<double> parse_number(std::string_view cell) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double value = 0;
  const auto [end, problem] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (problem != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_missing(std::string_view cell) {
  if (cell.empty() || cell == "?") return true;
  for (const std::string_view word : {"na", "n/a", "nan", "null"}) {
    if (std::equal(cell.begin(), cell.end(), word.begin(), word.end(), [](char a, char b) { return lower(a) == b; }))
      return true;
  }
  return false;
}

}  // namespace paceline
