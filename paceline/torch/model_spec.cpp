#include "paceline/torch/model_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <string_view>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxLayers = 256;

[[noreturn]] void refuse(const std::string& text, std::string_view why) {
  throw Error(Code::invalid, fmt::format("model '{}': {}; models are {}", text, why, model_help()));
}

int number(const std::string& text, std::string_view part, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc{} || end != part.data() + part.size() || value < 1 || value > most)
    refuse(text, fmt::format("'{}' is not a number from 1 to {}", part, most));
  return value;
}

// "256,128" and "2048x3".
std::vector<int> parse_widths(const std::string& text, std::string_view list) {
  std::vector<int> widths;
  while (true) {
    const std::string_view item = list.substr(0, list.find(','));
    const std::size_t times = item.find('x');
    const int width = number(text, item.substr(0, times), kMaxWidth);
    const int layers = times == std::string_view::npos ? 1 : number(text, item.substr(times + 1), kMaxLayers);
    widths.insert(widths.end(), static_cast<std::size_t>(layers), width);
    if (widths.size() > kMaxLayers) refuse(text, fmt::format("more than {} layers", kMaxLayers));
    if (item.size() == list.size()) return widths;
    list.remove_prefix(item.size() + 1);
  }
}

}  // namespace

std::string model_help() { return "softmax, mlp, mlp:WIDTHS (mlp:256,128 or mlp:2048x3), lenet, cnn"; }

std::string ModelSpec::text() const {
  switch (kind) {
    case Kind::softmax: return "softmax";
    case Kind::mlp: return fmt::format("mlp:{}", fmt::join(widths, ","));
    case Kind::lenet: return "lenet";
    case Kind::cnn: return "cnn";
  }
  return "?";
}

ModelSpec parse_model(const std::string& text) {
  if (text == "softmax") return {.kind = ModelSpec::Kind::softmax};
  if (text == "lenet") return {.kind = ModelSpec::Kind::lenet};
  if (text == "cnn") return {.kind = ModelSpec::Kind::cnn};
  if (text == "mlp") return {.kind = ModelSpec::Kind::mlp, .widths = {256, 128}};
  if (text.starts_with("mlp:")) {
    return {.kind = ModelSpec::Kind::mlp, .widths = parse_widths(text, std::string_view(text).substr(4))};
  }
  refuse(text, "there is none of that name");
}

// Two poolings halve a side each, and lenet's second convolution takes four pixels in between.
void require_fit(const ModelSpec& spec, const Shape& images) {
  const int least = spec.kind == ModelSpec::Kind::lenet ? 12 : spec.kind == ModelSpec::Kind::cnn ? 4 : 1;
  if (images.height >= least && images.width >= least) return;
  throw Error(Code::invalid, fmt::format("{} needs images of at least {}x{}; these are {}x{}", spec.text(), least,
                                         least, images.height, images.width));
}

}  // namespace paceline
