#include "paceline/data/file_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

bool exists(std::string_view file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

}  // namespace

std::optional<std::string> FileSpec::option(const std::string& key) const {
  const auto found = options.find(key);
  return found == options.end() ? std::nullopt : std::optional(found->second);
}

FileSpec parse_file_spec(std::string_view text, std::string_view name, std::initializer_list<std::string_view> known) {
  FileSpec spec;
  for (std::size_t comma = text.rfind(','); comma != std::string_view::npos; comma = text.rfind(',')) {
    const std::string_view part = text.substr(comma + 1);
    const std::size_t equals = part.find('=');
    const std::string key(part.substr(0, equals));
    const bool is_known = equals != std::string_view::npos && std::find(known.begin(), known.end(), key) != known.end();
    if (!is_known && exists(text)) break;
    if (!is_known) {
      throw Error(Code::invalid, fmt::format("in {}, '{}' is not known: after the file there may be {}=", name, part,
                                             fmt::join(known, "=, ")));
    }
    if (!spec.options.emplace(key, part.substr(equals + 1)).second) {
      throw Error(Code::invalid, fmt::format("in {}, '{}' gives the {} a second time", name, part, key));
    }
    text = text.substr(0, comma);
  }
  if (text.empty()) throw Error(Code::invalid, fmt::format("{0} needs its file: {0}:FILE", name));
  spec.file = text;
  return spec;
}

std::optional<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (percent) value /= 100;
  return value > 0 && value < 1 ? std::optional(value) : std::nullopt;
}

}  // namespace paceline
