#include "paceline/cli/parse_sentence.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>

namespace paceline {

std::string parse_sentence(const CLI::ParseError& error) {
  constexpr std::string_view kTooOften = ": At Most 1 required but received ";
  const std::string text = error.what();
  const std::size_t at = text.find(kTooOften);
  if (at == std::string::npos) return text;
  return fmt::format("{} is given {} times; once is enough", text.substr(0, at), text.substr(at + kTooOften.size()));
}

}  // namespace paceline
