#include "paceline/exchange/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "paceline/collective/planner.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::string_view kSeparators = " ,\t\n";

std::string_view without_alias(std::string_view key) {
  static const std::map<std::string_view, std::string_view> aliases = {
      {"sync", "when"}, {"comm", "where"}, {"compress", "what"}};
  const auto found = aliases.find(key);
  return found == aliases.end() ? key : found->second;
}

std::string* answer_to(Plan& plan, std::string_view key) {
  if (key == "split") return &plan.split;
  if (key == "when") return &plan.when;
  if (key == "where") return &plan.where;
  if (key == "what") return &plan.what;
  return nullptr;
}

std::vector<std::string> routes() {
  std::vector<std::string> words = {"allreduce"};
  for (const Algorithm algorithm : algorithms_of(Collective::allreduce)) words.emplace_back(name(algorithm));
  return words;
}

}  // namespace

std::vector<std::string> plan_words(std::string_view key) {
  key = without_alias(key);
  if (key == "split") return {"data"};
  if (key == "when") return {"bsp"};
  if (key == "where") return routes();
  if (key == "what") return {"dense"};
  return {};
}

void Plan::set(std::string_view key, std::string_view word) {
  std::string* answer = answer_to(*this, without_alias(key));
  if (answer == nullptr) {
    throw Error(Code::invalid, fmt::format("a plan has no key '{}'; it has split, when, where and what", key));
  }
  const std::vector<std::string> words = plan_words(key);
  if (std::find(words.begin(), words.end(), word) == words.end()) {
    throw Error(Code::invalid, fmt::format("'{}' is not known as an answer to {}; there {}: {}", word, key,
                                           words.size() == 1 ? "is" : "are", fmt::join(words, ", ")));
  }
  *answer = word;
}

Algorithm Plan::algorithm() const {
  for (const Algorithm algorithm : algorithms_of(Collective::allreduce)) {
    if (where == name(algorithm)) return algorithm;
  }
  return Algorithm::automatic;
}

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
