#include "paceline/sync/policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr int kMost = 1'000'000;

// One row for each word: a new policy begins here.
struct Word {
  Policy::Kind kind;
  std::string_view name;
  std::string_view example;
  int least = 0;  // of the number; without one both are 0
  int most = 0;
};
constexpr std::array kWords = {
    Word{Policy::Kind::bsp, "bsp", "bsp"},
    Word{Policy::Kind::ssp, "ssp", "ssp:3", 0, kMost},
    Word{Policy::Kind::essp, "essp", "essp:3", 0, kMost},
    Word{Policy::Kind::async, "async", "async"},
    Word{Policy::Kind::softsync, "softsync", "softsync:4", 1, kMost},
    Word{Policy::Kind::local, "local", "local:8", 1, kMost},
    Word{Policy::Kind::delayed, "delayed", "delayed:1", 1, 16},
};

const Word& word_of(Policy::Kind kind) {
  const auto found = std::find_if(kWords.begin(), kWords.end(), [&](const Word& word) { return word.kind == kind; });
  CHECK(found != kWords.end(), "every kind of policy has its row");
  return *found;
}

int parse_number(const Word& word, std::string_view text) {
  const std::string_view digits = text.substr(std::min(word.name.size() + 1, text.size()));
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (whole && number >= word.least && number <= word.most) return number;
  throw Error(Code::invalid, fmt::format("'{}' needs a whole number from {} to {}, as in {}", text, word.least,
                                         word.most, word.example));
}

}  // namespace

std::string Policy::text() const {
  const Word& word = word_of(kind);
  return word.most == 0 ? std::string(word.name) : fmt::format("{}:{}", word.name, number);
}

const std::vector<std::string>& policy_words() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    for (const Word& word : kWords) all.emplace_back(word.example);
    return all;
  }();
  return words;
}

Policy parse_policy(std::string_view text) {
  for (const Word& word : kWords) {
    if (word.most == 0 && text == word.name) return {word.kind, 0};
    if (word.most > 0 && text.substr(0, text.find(':')) == word.name) return {word.kind, parse_number(word, text)};
  }
  throw Error(Code::invalid,
              fmt::format("'{}' does not say when updates meet; there are: {}", text, fmt::join(policy_words(), ", ")));
}

bool may_begin(const Policy& policy, std::int64_t clock, std::int64_t slowest) {
  return slowest >= must_contain(policy, clock);
}

std::int64_t must_contain(const Policy& policy, std::int64_t clock) {
  switch (policy.kind) {
    case Policy::Kind::bsp: return clock;
    case Policy::Kind::ssp:
    case Policy::Kind::essp:
    case Policy::Kind::delayed: return std::max<std::int64_t>(clock - policy.number, 0);
    case Policy::Kind::local: return clock - clock % policy.number;
    case Policy::Kind::async:
    case Policy::Kind::softsync: return 0;
  }
  CHECK(false, "every kind of policy says what a read must contain");
}

bool reads_own_writes(const Policy& policy) {
  return policy.kind != Policy::Kind::softsync && policy.kind != Policy::Kind::delayed;
}

Apply apply_rule(const Policy& policy) {
  if (policy.kind == Policy::Kind::bsp) return Apply::when_all_have_clocked;
  if (policy.kind == Policy::Kind::softsync) return Apply::after_so_many;
  return Apply::at_once;
}

bool delivers_eagerly(const Policy& policy) { return policy.kind == Policy::Kind::essp; }

bool meets_at(const Policy& policy, std::int64_t clock) {
  return policy.kind != Policy::Kind::local || clock % policy.number == 0;
}

int softsync_count(int workers, int n) {
  CHECK(workers >= 1 && n >= 1, "there is a worker, and n-softsync has an n");
  return std::max(workers / n, 1);
}

}  // namespace paceline
