#include "paceline/server/update_rule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/server/update_kernels.hpp"

namespace paceline {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

struct Setting {
  std::string_view key;
  double UpdateRule::*number;
  double usual;
  double least;
  double below;
};
constexpr Setting kDecay = {"weight_decay", &UpdateRule::weight_decay, 0, 0, kAny};

struct RuleRow {
  RuleKind kind;
  std::string_view name;
  std::size_t state_floats;
  bool counts_steps;
  std::vector<Setting> settings;  // the rate first
};

using U = UpdateRule;
constexpr Setting rate(double usual) { return {"lr", &U::lr, usual, 0, kAny}; }

// In the order of RuleKind. Usual values are those of torch::optim, of ftrl those of the paper's pseudo-code.
const std::vector<RuleRow>& rows() {
  static const std::vector<RuleRow> all = {
      {RuleKind::add, "add", 0, false, {}},
      {RuleKind::sgd, "sgd", 0, false, {rate(0.01), kDecay}},
      {RuleKind::momentum, "momentum", 1, false, {rate(0.01), {"momentum", &U::momentum, 0.9, 0, 1}, kDecay}},
      {RuleKind::adagrad, "adagrad", 1, false, {rate(0.01), {"eps", &U::epsilon, 1e-10, 0, kAny}, kDecay}},
      {RuleKind::rmsprop,
       "rmsprop",
       1,
       false,
       {rate(0.01), {"alpha", &U::alpha, 0.99, 0, 1}, {"eps", &U::epsilon, 1e-8, 0, kAny}, kDecay}},
      {RuleKind::adam,
       "adam",
       2,
       true,
       {rate(0.001),
        {"beta1", &U::beta1, 0.9, 0, 1},
        {"beta2", &U::beta2, 0.999, 0, 1},
        {"eps", &U::epsilon, 1e-8, 0, kAny},
        kDecay}},
      {RuleKind::ftrl,
       "ftrl",
       2,
       false,
       {{"lr", &U::lr, 0.1, 1e-30, kAny},
        {"beta", &U::beta, 1, 1e-30, kAny},
        {"l1", &U::l1, 0, 0, kAny},
        {"l2", &U::l2, 0, 0, kAny}}},
  };
  return all;
}

const RuleRow& row_of(RuleKind kind) {
  const RuleRow& row = rows()[static_cast<std::size_t>(kind)];
  CHECK(row.kind == kind, "the table of rules is in the order of RuleKind");
  return row;
}

const RuleRow& row_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const RuleRow& row : rows()) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw Error(Code::invalid, fmt::format("there is no update rule '{}'; there are {}", name, fmt::join(names, ", ")));
}

const Setting& setting_named(const RuleRow& row, std::string_view key) {
  std::vector<std::string_view> keys;
  for (const Setting& setting : row.settings) {
    if (setting.key == key) return setting;
    keys.push_back(setting.key);
  }
  const std::string has = keys.empty() ? "no settings" : fmt::format("{}", fmt::join(keys, ", "));
  throw Error(Code::invalid, fmt::format("update rule {} has no setting '{}'; it has {}", row.name, key, has));
}

double number(std::string_view part, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc{} || end != part.data() + part.size() || !std::isfinite(value))
    throw Error(Code::invalid, fmt::format("'{}' in the update rule '{}' is not a number", part, text));
  return value;
}

void set(UpdateRule& rule, const RuleRow& row, const Setting& setting, double value) {
  if (!(value >= setting.least && value < setting.below)) {
    const std::string limit = setting.below == kAny ? "" : fmt::format(" and below {}", setting.below);
    throw Error(Code::invalid, fmt::format("{} of update rule {} is at least {}{}, not {}", setting.key, row.name,
                                           setting.least, limit, value));
  }
  rule.*setting.number = value;
}

UpdateRule usual(const RuleRow& row) {
  UpdateRule rule{.kind = row.kind};
  for (const Setting& setting : row.settings) rule.*setting.number = setting.usual;
  return rule;
}

}  // namespace

UpdateRule parse_rule(std::string_view text) {
  const std::size_t colon = text.find(':');
  const RuleRow& row = row_named(text.substr(0, colon));
  UpdateRule rule = usual(row);
  if (colon == std::string_view::npos) return rule;
  bool first = true;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t equals = item.find('=');
    if (equals != std::string_view::npos) {
      const Setting& setting = setting_named(row, item.substr(0, equals));
      set(rule, row, setting, number(item.substr(equals + 1), text));
    } else if (first) {
      set(rule, row, setting_named(row, "lr"), number(item, text));
    } else {
      throw Error(Code::invalid,
                  fmt::format("a setting is KEY=VALUE; '{}' in the update rule '{}' is not", item, text));
    }
    if (item.size() == rest.size()) return rule;
    rest.remove_prefix(item.size() + 1);
    first = false;
  }
}

std::string UpdateRule::text() const {
  const RuleRow& row = row_of(kind);
  std::string words;
  for (const Setting& setting : row.settings) {
    const double value = this->*setting.number;
    const char* separator = words.empty() ? ":" : ",";
    if (setting.key == "lr") {
      words += fmt::format("{}{}", separator, value);
    } else if (value != setting.usual) {
      words += fmt::format("{}{}={}", separator, setting.key, value);
    }
  }
  return std::string(row.name) + words;
}

std::string rule_help() {
  std::vector<std::string> all;
  for (const RuleRow& row : rows()) {
    std::vector<std::string> words;
    for (const Setting& setting : row.settings) words.push_back(fmt::format("{}={}", setting.key, setting.usual));
    all.push_back(fmt::format("{}{}{}", row.name, words.empty() ? "" : ":", fmt::join(words, ",")));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

std::size_t state_floats(RuleKind kind) { return row_of(kind).state_floats; }

bool counts_steps(RuleKind kind) { return row_of(kind).counts_steps; }

bool is_linear(const UpdateRule& rule) {
  return rule.kind == RuleKind::add || (rule.kind == RuleKind::sgd && rule.weight_decay == 0);
}

void apply(const UpdateRule& rule, const RowUpdate& update) {
  StepNumbers numbers(rule, update.scale);
  const RowPointers row{update.values, update.state, update.gradient};
  update_rows(rule.kind, {&numbers.at(update.step), 1}, {&row, 1},
              {.width = update.count, .state_spacing = update.state_spacing});
}

}  // namespace paceline
