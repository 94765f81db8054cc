#include "paceline/torch/noise_spec.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::string_view kDiagonal = "fisher-diag";
constexpr std::string_view kTrace = "fisher-trace";
constexpr std::int64_t kMaxBatch = 1'000'000'000;

}  // namespace

std::string NoiseSpec::text() const {
  return fmt::format("{}:{}", shape == Shape::diagonal ? kDiagonal : kTrace, batch);
}

NoiseSpec parse_noise(const std::string& text) {
  const std::string_view whole = text;
  const std::size_t colon = whole.find(':');
  const std::string_view name = whole.substr(0, colon);
  const std::string_view number = colon == std::string_view::npos ? "" : whole.substr(colon + 1);
  NoiseSpec spec{.shape = name == kTrace ? NoiseSpec::Shape::trace : NoiseSpec::Shape::diagonal};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), spec.batch);
  const bool counted = error == std::errc{} && end == number.data() + number.size();
  if ((name != kDiagonal && name != kTrace) || !counted || spec.batch < 1 || spec.batch > kMaxBatch)
    throw Error(Code::invalid, fmt::format("noise '{}' is not {}:SMALL or {}:SMALL, SMALL being the batch to imitate",
                                           text, kDiagonal, kTrace));
  return spec;
}

void require_noise_fits(const NoiseSpec& spec, std::int64_t examples, std::int64_t parts) {
  if (spec.batch >= examples)
    throw Error(Code::invalid, fmt::format("noise {}: a step has {} examples, which is no more than the batch to "
                                           "imitate; take a larger --batch or no noise",
                                           spec.text(), examples));
  if (parts < 2)
    throw Error(Code::invalid,
                fmt::format("noise {}: a step's {} examples go through the model in one part, from which "
                            "noise cannot be learned; take a smaller --micro-batch",
                            spec.text(), examples));
}

}  // namespace paceline
