#include "paceline/server/row_initializer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

void fill_uniform(Random& random, double size, std::span<float> values) {
  for (float& value : values) value = static_cast<float>(size * (2 * random.uniform() - 1));
}

// Box & Muller 1958: two draws give two values.
void fill_normal(Random& random, double size, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const double radius = size * std::sqrt(-2 * std::log(1 - random.uniform()));
    const double angle = 2 * std::numbers::pi * random.uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace

void RowInitializer::fill(std::uint64_t key, std::span<float> values) const {
  Random random(seed, key);
  switch (kind) {
    case Kind::zero: std::fill(values.begin(), values.end(), 0.0f); return;
    case Kind::uniform: fill_uniform(random, size, values); break;
    case Kind::normal: fill_normal(random, size, values); break;
  }
  drop_signs_of_zeros(values);
}

std::string RowInitializer::text() const {
  if (kind == Kind::zero) return "zero";
  return fmt::format("{}:{}", kind == Kind::uniform ? "uniform" : "normal", size);
}

RowInitializer parse_initializer(std::string_view text, std::uint64_t seed) {
  using Kind = RowInitializer::Kind;
  if (text == "zero") return {.seed = seed};
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view word = text.substr(0, colon);
  const std::string_view part = text.substr(std::min(colon + 1, text.size()));
  double size = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
  const bool is_number = error == std::errc{} && end == part.data() + part.size() && size >= 0 && std::isfinite(size);
  if ((word != "uniform" && word != "normal") || !is_number)
    throw Error(Code::invalid,
                fmt::format("'{}' does not say how rows begin: write zero, uniform:SIZE or normal:DEVIATION", text));
  return {.kind = word == "uniform" ? Kind::uniform : Kind::normal, .size = size, .seed = seed};
}

}  // namespace paceline
