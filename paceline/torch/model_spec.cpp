#include "paceline/torch/model_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
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
void parse_widths(ModelSpec& spec, const std::string& text, std::string_view list) {
  std::vector<int>& widths = spec.sizes;
  while (true) {
    const std::string_view item = list.substr(0, list.find(','));
    const std::size_t times = item.find('x');
    const int width = number(text, item.substr(0, times), kMaxWidth);
    const int layers = times == std::string_view::npos ? 1 : number(text, item.substr(times + 1), kMaxLayers);
    widths.insert(widths.end(), static_cast<std::size_t>(layers), width);
    if (widths.size() > kMaxLayers) refuse(text, fmt::format("more than {} layers", kMaxLayers));
    if (item.size() == list.size()) return;
    list.remove_prefix(item.size() + 1);
  }
}

// Exactly as many numbers as there are limits, with commas between.
void parse_numbers(ModelSpec& spec, const std::string& text, std::string_view list, std::initializer_list<int> most) {
  const auto given = static_cast<std::size_t>(std::count(list.begin(), list.end(), ',')) + 1;
  if (given != most.size()) refuse(text, fmt::format("{} numbers are needed, not {}", most.size(), given));
  for (const int limit : most) {
    const std::string_view item = list.substr(0, list.find(','));
    spec.sizes.push_back(number(text, item, limit));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
  }
}

// "4,256,4"
void parse_transformer(ModelSpec& spec, const std::string& text, std::string_view list) {
  parse_numbers(spec, text, list, {kMaxLayers, kMaxWidth, kMaxWidth});
  if (spec.sizes[1] % spec.sizes[2] != 0)
    refuse(text, fmt::format("a width of {} cannot be divided among {} heads", spec.sizes[1], spec.sizes[2]));
}

// "2,256"
void parse_lstm(ModelSpec& spec, const std::string& text, std::string_view list) {
  parse_numbers(spec, text, list, {kMaxLayers, kMaxWidth});
}

// "16"
void parse_wide_deep(ModelSpec& spec, const std::string& text, std::string_view list) {
  constexpr int kMaxEmbedding = 4096;
  parse_numbers(spec, text, list, {kMaxEmbedding});
}

void parse_file(ModelSpec& spec, const std::string& text, std::string_view name) {
  if (name.empty()) refuse(text, fmt::format("a file's name must follow, as in {}:FILE", spec.family));
  spec.file = name;
}

// What a model has that a ModelOptions can speak of.
enum class Inside { plain, segments, segments_with_batch_norm };

// One row for each family: its form for help, and what it asks of its words and of the data.
struct Family {
  std::string_view name;
  std::string_view form;
  void (*parse)(ModelSpec& spec, const std::string& text, std::string_view rest);  // nullptr: nothing may follow
  std::string_view usual;                                                          // what follows if nothing does
  std::initializer_list<Kind> takes;
  int least_side;
  Inside inside = Inside::plain;
  bool rows_on_servers = false;
};
constexpr std::initializer_list<Kind> kImages = {Kind::images};
constexpr std::initializer_list<Kind> kNumbers = {Kind::images, Kind::table};
constexpr std::initializer_list<Kind> kText = {Kind::text};
constexpr std::initializer_list<Kind> kKeyed = {Kind::keyed};
constexpr std::initializer_list<Kind> kAll = {Kind::images, Kind::table, Kind::text};

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::images: return "images";
    case Kind::table: return "the rows of a table";
    case Kind::text: return "text";
    case Kind::keyed: return "rows of numbers and keys";
  }
  return "data of an unknown kind";
}

// Two poolings halve a side each, and lenet's second convolution takes four pixels in between; vgg16 has five poolings.
constexpr Family kFamilies[] = {
    {"softmax", "softmax", nullptr, "", kNumbers, 1},
    {"mlp", "mlp, mlp:WIDTHS (mlp:256,128 or mlp:2048x3)", parse_widths, "256,128", kNumbers, 1},
    {"lenet", "lenet", nullptr, "", kImages, 12},
    {"cnn", "cnn", nullptr, "", kImages, 4},
    {"resnet18", "resnet18", nullptr, "", kImages, 1, Inside::segments_with_batch_norm},
    {"vgg16", "vgg16", nullptr, "", kImages, 32, Inside::segments_with_batch_norm},
    {"transformer", "transformer[:LAYERS,WIDTH,HEADS]", parse_transformer, "4,256,4", kText, 1, Inside::segments},
    {"lstm", "lstm[:LAYERS,WIDTH]", parse_lstm, "2,256", kText, 1},
    {"wide-deep", "wide-deep[:WIDTH] (of criteo)", parse_wide_deep, "16", kKeyed, 1, Inside::plain, true},
    {"script", "script:FILE (TorchScript)", parse_file, "", kAll, 1},
};

bool holds(const Family& family, Kind kind) {
  return std::find(family.takes.begin(), family.takes.end(), kind) != family.takes.end();
}

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
  if (!file.empty()) return fmt::format("{}:{}", family, file);
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
    family->parse(spec, text, alone ? family->usual : std::string_view(text).substr(colon + 1));
  return spec;
}

bool takes(const ModelSpec& spec, Kind kind) { return holds(*find_family(spec.family), kind); }

bool keeps_rows_on_servers(const ModelSpec& spec) { return find_family(spec.family)->rows_on_servers; }

void require_fit(const ModelSpec& spec, const Form& form) {
  const Family& family = *find_family(spec.family);
  if (!holds(family, form.kind)) {
    std::string fitting;
    for (const Family& other : kFamilies) {
      if (holds(other, form.kind)) fitting += fmt::format("{}{}", fitting.empty() ? "" : ", ", other.form);
    }
    throw Error(Code::invalid,
                fmt::format("{} does not take {}; what does is {}", spec.text(), name(form.kind), fitting));
  }
  const Shape& images = form.shape;
  const int least = family.least_side;
  if (images.height < least || images.width < least) {
    throw Error(Code::invalid, fmt::format("{} needs images of at least {}x{}; these are {}x{}", spec.text(), least,
                                           least, images.height, images.width));
  }
  std::error_code ignored;
  if (!spec.file.empty() && !std::filesystem::is_regular_file(spec.file, ignored))
    throw Error(Code::invalid, fmt::format("model {}: there is no such file", spec.text()));
}

void require_fit(const ModelSpec& spec, const ModelOptions& options) {
  const Inside inside = find_family(spec.family)->inside;
  if (options.ghost_batch < 0) throw Error(Code::invalid, "a ghost batch has at least one example");
  if (options.ghost_batch > 0 && inside != Inside::segments_with_batch_norm)
    throw Error(Code::invalid, fmt::format("{} has no batch norm that could see ghost batches", spec.text()));
  if (options.checkpoint_activations && inside == Inside::plain)
    throw Error(Code::invalid, fmt::format("{} has no segments that could be computed again", spec.text()));
}

}  // namespace paceline
