#include "paceline/torch/rate_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

using Kind = RateSchedule::Kind;

struct Row {
  std::string_view name;
  std::string_view form;
  Kind kind;
  std::size_t least_words;  // that follow the name
  std::size_t most_words;
};
constexpr Row kRows[] = {
    {"constant", "constant", Kind::constant, 0, 0},
    {"step", "step[:EPOCHS[,FACTOR]]", Kind::step, 0, 2},
    {"exponential", "exponential:FACTOR", Kind::exponential, 1, 1},
    {"inverse-sqrt", "inverse-sqrt", Kind::inverse_sqrt, 0, 0},
    {"cosine", "cosine", Kind::cosine, 0, 0},
    {"plateau", "plateau", Kind::plateau, 0, 0},
};

[[noreturn]] void refuse(const std::string& text, std::string_view why) {
  throw Error(Code::invalid, fmt::format("schedule '{}': {}; schedules are {}", text, why, schedule_help()));
}

// What follows the colon, cut at commas.
std::vector<std::string_view> words_after(std::string_view text) {
  std::vector<std::string_view> words;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return words;
  for (text.remove_prefix(colon + 1);; text.remove_prefix(words.back().size() + 1)) {
    words.push_back(text.substr(0, text.find(',')));
    if (words.back().size() == text.size()) return words;
  }
}

template <class Number>
bool read(std::string_view part, Number& value) {
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  return error == std::errc{} && end == part.data() + part.size();
}

double factor_of(const std::string& text, std::string_view part) {
  double factor = 0;
  if (!read(part, factor) || !(factor > 0 && factor <= 1))
    refuse(text, fmt::format("a factor is above 0 and at most 1, not '{}'", part));
  return factor;
}

int epochs_of(const std::string& text, std::string_view part) {
  int epochs = 0;
  if (!read(part, epochs) || epochs < 1) refuse(text, fmt::format("'{}' is not a number of epochs", part));
  return epochs;
}

}  // namespace

RateSchedule parse_schedule(const std::string& text) {
  const std::string_view name = std::string_view(text).substr(0, text.find(':'));
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& one) { return one.name == name; });
  if (row == std::end(kRows)) refuse(text, "there is none of that name");
  const auto words = words_after(text);
  if (words.size() < row->least_words) refuse(text, fmt::format("{} needs its factor", name));
  if (words.size() > row->most_words) refuse(text, fmt::format("'{}' is too much", words.back()));
  RateSchedule schedule{.kind = row->kind};
  if (row->kind == Kind::step && !words.empty()) schedule.every_epochs = epochs_of(text, words[0]);
  if (row->kind == Kind::step && words.size() > 1) schedule.factor = factor_of(text, words[1]);
  if (row->kind == Kind::exponential) schedule.factor = factor_of(text, words[0]);
  return schedule;
}

std::vector<std::string> known_schedules() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

std::string schedule_help() {
  std::vector<std::string_view> forms;
  for (const Row& row : kRows) forms.push_back(row.form);
  return fmt::format("{}", fmt::join(forms, ", "));
}

void check_rate(const RateSpec& spec) {
  parse_schedule(spec.schedule);
  if (!(spec.base >= 0 && std::isfinite(spec.base)))
    throw Error(Code::invalid, fmt::format("a learning rate is at least 0, not {}", spec.base));
  if (spec.total_steps < 0 || spec.steps_per_epoch < 1)
    throw Error(Code::invalid, fmt::format("a run of {} steps, {} in an epoch, has no learning rate", spec.total_steps,
                                           spec.steps_per_epoch));
  if (spec.warmup_steps < 0)
    throw Error(Code::invalid, fmt::format("a warm-up has at least 0 steps, not {}", spec.warmup_steps));
  if (spec.warmup_steps > 0 && spec.warmup_steps >= spec.total_steps)
    throw Error(Code::invalid, fmt::format("a warm-up of {} steps leaves nothing of a run of {}", spec.warmup_steps,
                                           spec.total_steps));
}

double RateScale::apply(double base, std::int64_t global_batch) const {
  if (kind == Kind::none) return base;
  const double ratio = static_cast<double>(global_batch) / static_cast<double>(reference);
  return base * (kind == Kind::linear ? ratio : std::sqrt(ratio));
}

RateScale parse_rate_scale(const std::string& text) {
  const std::string_view name = std::string_view(text).substr(0, text.find(':'));
  const auto words = words_after(text);
  RateScale scale{.reference = kReferenceBatch};
  bool good = words.size() <= 1;
  if (name == "linear" || name == "sqrt") {
    scale.kind = name == "linear" ? RateScale::Kind::linear : RateScale::Kind::sqrt;
    if (!words.empty()) good = good && read(words[0], scale.reference) && scale.reference >= 1;
  } else {
    good = text == "none";
  }
  if (good) return scale;
  throw Error(Code::invalid, fmt::format("a rate is scaled by none, linear[:BATCH] or sqrt[:BATCH], not '{}'", text));
}

}  // namespace paceline
