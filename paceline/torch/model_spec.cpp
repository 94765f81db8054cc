#include "paceline/torch/model_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

// One row for each family: its form for help, and what it asks of its words and of the images.
struct Family {
  std::string_view name;
  std::string_view form;
  std::vector<int> (*parse)(const std::string& text, std::string_view rest);  // nullptr: nothing may follow the name
  std::string_view usual;                                                     // what follows a name that stands alone
  std::initializer_list<Kind> takes;
  int least_side;
};
constexpr std::initializer_list<Kind> kImages = {Kind::images};
constexpr std::initializer_list<Kind> kNumbers = {Kind::images, Kind::table};

std::string_view name(Kind kind) {
  return kind == Kind::images ? "images" : kind == Kind::table ? "the rows of a table" : "text";
}

// Two poolings halve a side each, and lenet's second convolution takes four pixels in between.
constexpr Family kFamilies[] = {
    {"softmax", "softmax", nullptr, "", kNumbers, 1},
    {"mlp", "mlp, mlp:WIDTHS (mlp:256,128 or mlp:2048x3)", parse_widths, "256,128", kNumbers, 1},
    {"lenet", "lenet", nullptr, "", kImages, 12},
    {"cnn", "cnn", nullptr, "", kImages, 4},
};

const Family* find_family(std::string_view name) {
  const auto found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const Family& family) { return family.name == name; });
  return found == std::end(kFamilies) ? nullptr : found;
}

}  // namespace

std::vector<std::string> model_families() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  return names;
}

std::string model_help() {
  std::string forms;
  for (const Family& family : kFamilies) forms += fmt::format("{}{}", forms.empty() ? "" : ", ", family.form);
  return forms;
}

std::string ModelSpec::text() const {
  return sizes.empty() ? family : fmt::format("{}:{}", family, fmt::join(sizes, ","));
}

ModelSpec parse_model(const std::string& text) {
  const std::size_t colon = text.find(':');
  const Family* family = find_family(std::string_view(text).substr(0, colon));
  if (family == nullptr) refuse(text, "there is none of that name");
  const bool alone = colon == std::string::npos;
  if (!alone && family->parse == nullptr) refuse(text, fmt::format("nothing may follow {}", family->name));
  ModelSpec spec{.family = std::string(family->name)};
  if (family->parse != nullptr)
    spec.sizes = family->parse(text, alone ? family->usual : std::string_view(text).substr(colon + 1));
  return spec;
}

void require_fit(const ModelSpec& spec, const Form& form) {
  const Family& family = *find_family(spec.family);
  if (std::find(family.takes.begin(), family.takes.end(), form.kind) == family.takes.end()) {
    std::string fitting;
    for (const Family& other : kFamilies) {
      if (std::find(other.takes.begin(), other.takes.end(), form.kind) == other.takes.end()) continue;
      fitting += fmt::format("{}{}", fitting.empty() ? "" : ", ", other.form);
    }
    throw Error(Code::invalid,
                fmt::format("{} does not take {}; what does is {}", spec.text(), name(form.kind), fitting));
  }
  const Shape& images = form.shape;
  const int least = family.least_side;
  if (images.height >= least && images.width >= least) return;
  throw Error(Code::invalid, fmt::format("{} needs images of at least {}x{}; these are {}x{}", spec.text(), least,
                                         least, images.height, images.width));
}

}  // namespace paceline
