#include "paceline/exchange/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "paceline/collective/catalogue.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::string_view kSeparators = " ,\t\n";

std::vector<std::string> routes() {
  std::vector<std::string> words = {"allreduce"};
  for (const Algorithm algorithm : algorithms_of(Collective::allreduce)) words.emplace_back(name(algorithm));
  return words;
}

// A word of the form name:number.
struct Numbered {
  std::string_view name;
  std::string_view what;  // the number is
  int least;
  int most;
};
constexpr Numbered kDelayed = {"delayed", "a number of steps", 1, 16};

// One row for each question that a plan answers: a new word goes into its row.
struct Question {
  std::string_view key;
  std::string_view alias;
  std::string Plan::*answer;
  std::vector<std::string> words;  // the numbered ones too, as an example
  std::vector<Numbered> numbered = {};
};

const std::vector<Question>& questions() {
  static const std::vector<Question> all = {
      {"split", "split", &Plan::split, {"data"}},
      {"when", "sync", &Plan::when, {"bsp", "delayed:1"}, {kDelayed}},
      {"where", "comm", &Plan::where, routes()},
      {"what", "compress", &Plan::what, {"dense"}},
  };
  return all;
}

// The number behind `name:`; nullopt if that is another word. Throws Error{invalid} if the number is missing or none.
std::optional<int> number_of(const Numbered& known, std::string_view word) {
  const std::size_t colon = word.find(':');
  if (word.substr(0, colon) != known.name) return std::nullopt;
  const std::string_view digits = colon == std::string_view::npos ? std::string_view() : word.substr(colon + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (whole && number >= known.least && number <= known.most) return number;
  throw Error(Code::invalid, fmt::format("'{}' needs {} from {} to {}, as in {}:{}", word, known.what, known.least,
                                         known.most, known.name, known.least));
}

const Question& question(std::string_view key) {
  for (const Question& known : questions()) {
    if (key == known.key || key == known.alias) return known;
  }
  throw Error(Code::invalid, fmt::format("a plan has no key '{}'; it has split, when, where and what", key));
}

}  // namespace

const std::vector<std::string>& plan_words(std::string_view key) { return question(key).words; }

void Plan::set(std::string_view key, std::string_view word) {
  const Question& asked = question(key);
  for (const Numbered& known : asked.numbered) {
    const std::optional<int> number = number_of(known, word);
    if (!number) continue;
    this->*asked.answer = fmt::format("{}:{}", known.name, *number);
    return;
  }
  const std::vector<std::string>& words = asked.words;
  if (std::find(words.begin(), words.end(), word) == words.end()) {
    throw Error(Code::invalid, fmt::format("'{}' is not known as an answer to {}; there {}: {}", word, key,
                                           words.size() == 1 ? "is" : "are", fmt::join(words, ", ")));
  }
  this->*asked.answer = word;
}

Algorithm Plan::algorithm() const {
  for (const Algorithm algorithm : algorithms_of(Collective::allreduce)) {
    if (where == name(algorithm)) return algorithm;
  }
  return Algorithm::automatic;
}

int Plan::delay() const { return number_of(kDelayed, when).value_or(0); }

std::string Plan::text() const { return fmt::format("split={} when={} where={} what={}", split, when, where, what); }

Plan parse_plan(std::string_view text) {
  Plan plan;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return plan;
    text.remove_prefix(begin);
    const std::string_view pair = text.substr(0, text.find_first_of(kSeparators));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      throw Error(Code::invalid, fmt::format("'{}' in a plan is not of the form key=word, as in where=ring", pair));
    }
    plan.set(pair.substr(0, equals), pair.substr(equals + 1));
    text.remove_prefix(pair.size());
  }
}

}  // namespace paceline
