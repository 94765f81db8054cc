#include "paceline/torch/optimizer_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

struct Setting {
  std::string_view key;
  double usual;
  double least;
  double below;
};
constexpr Setting kMomentum = {"momentum", 0.9, 0, 1};
constexpr Setting kBeta1 = {"beta1", 0.9, 0, 1};
constexpr Setting kBeta2 = {"beta2", 0.999, 0, 1};
constexpr Setting kEpsilon = {"eps", 1e-8, 0, kAny};

struct Row {
  std::string_view name;
  double rate;
  std::vector<Setting> settings;
};

// The words of settings are torch::optim's. Every name has a maker in optimizers.cpp.
const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"sgd", 0.05, {}},
      {"momentum", 0.02, {kMomentum, {"dampening", 0, 0, 1}}},
      {"nesterov", 0.02, {{"momentum", 0.9, 1e-6, 1}}},
      {"adagrad", 0.01, {{"lr_decay", 0, 0, kAny}, {"initial_accumulator_value", 0, 0, kAny}, {"eps", 1e-10, 0, kAny}}},
      {"rmsprop", 1e-3, {{"alpha", 0.99, 0, 1}, kEpsilon, {"momentum", 0, 0, 1}, {"centered", 0, 0, 2}}},
      {"adam", 1e-3, {kBeta1, kBeta2, kEpsilon}},
      {"adamw", 1e-3, {kBeta1, kBeta2, kEpsilon}},
      {"lars", 3, {kMomentum, {"eta", 0.001, 1e-12, kAny}, kEpsilon}},
      {"lamb", 5e-3, {kBeta1, kBeta2, {"eps", 1e-6, 0, kAny}}},
  };
  return all;
}

const Row& row_of(std::string_view name) {
  const auto found = std::find_if(rows().begin(), rows().end(), [&](const Row& row) { return row.name == name; });
  if (found != rows().end()) return *found;
  throw Error(Code::invalid,
              fmt::format("there is no optimizer '{}'; there are {}", name, fmt::join(known_optimizers(), ", ")));
}

const Setting* find_setting(const Row& row, std::string_view key) {
  const auto found =
      std::find_if(row.settings.begin(), row.settings.end(), [&](const Setting& one) { return one.key == key; });
  return found == row.settings.end() ? nullptr : &*found;
}

void check_setting(const Row& row, std::string_view key, double value) {
  const Setting* setting = find_setting(row, key);
  if (setting == nullptr) {
    std::vector<std::string_view> keys;
    for (const Setting& one : row.settings) keys.push_back(one.key);
    throw Error(Code::invalid, keys.empty() ? fmt::format("optimizer {} has no settings, so no '{}'", row.name, key)
                                            : fmt::format("optimizer {} has no setting '{}'; it has {}", row.name, key,
                                                          fmt::join(keys, ", ")));
  }
  if (value >= setting->least && value < setting->below) return;
  const std::string limit = setting->below == kAny ? "" : fmt::format(" and below {}", setting->below);
  throw Error(Code::invalid,
              fmt::format("{} of optimizer {} is at least {}{}, not {}", key, row.name, setting->least, limit, value));
}

double number(const std::string& text, std::string_view part) {
  double value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc{} || end != part.data() + part.size() || !std::isfinite(value))
    throw Error(Code::invalid, fmt::format("'{}' in --optimizer {} is not a number", part, text));
  return value;
}

}  // namespace

double OptimizerSpec::rate() const { return lr == 0 ? default_rate(name) : lr; }

double OptimizerSpec::setting(std::string_view key) const {
  if (const auto given = settings.find(key); given != settings.end()) return given->second;
  const Setting* usual = find_setting(row_of(name), key);
  CHECK(usual != nullptr, "only an optimizer's own settings are asked for");
  return usual->usual;
}

std::string OptimizerSpec::text() const {
  std::string words;
  for (const auto& [key, value] : settings) words += fmt::format("{}{}={}", words.empty() ? ":" : ",", key, value);
  return name + words;
}

OptimizerSpec parse_optimizer(const std::string& text) {
  const std::size_t colon = text.find(':');
  const Row& row = row_of(std::string_view(text).substr(0, colon));
  OptimizerSpec spec{.name = std::string(row.name)};
  if (colon == std::string::npos) return spec;
  for (std::string_view rest = std::string_view(text).substr(colon + 1);;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      throw Error(Code::invalid, fmt::format("a setting is KEY=VALUE; '{}' in --optimizer {} is not", item, text));
    const std::string_view key = item.substr(0, equals);
    const double value = number(text, item.substr(equals + 1));
    check_setting(row, key, value);
    spec.settings.insert_or_assign(std::string(key), value);
    if (item.size() == rest.size()) return spec;
    rest.remove_prefix(item.size() + 1);
  }
}

void check_optimizer(const OptimizerSpec& spec) {
  const Row& row = row_of(spec.name);
  for (const double value : {spec.lr, spec.weight_decay}) {
    if (!(value >= 0 && std::isfinite(value)))
      throw Error(Code::invalid,
                  fmt::format("rate and weight decay of optimizer {} are at least 0, not {}", spec.name, value));
  }
  for (const auto& [key, value] : spec.settings) check_setting(row, key, value);
}

double default_rate(const std::string& name) { return row_of(name).rate; }

std::vector<std::string> known_optimizers() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.name);
  return names;
}

std::string optimizer_help() {
  std::vector<std::string> all;
  for (const Row& row : rows()) {
    OptimizerSpec usual{.name = std::string(row.name)};
    for (const Setting& setting : row.settings) usual.settings.emplace(setting.key, setting.usual);
    all.push_back(usual.text());
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace paceline
