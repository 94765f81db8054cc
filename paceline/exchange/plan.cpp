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
  words.emplace_back("gossip");
  for (const GossipGraph graph : kAllGossipGraphs) words.push_back(fmt::format("gossip:{}", name(graph)));
  words.emplace_back("hogwild");
  words.emplace_back("hogwild:locked");
  words.emplace_back("server:1");
  return words;
}

// What a word means that leaves something open.
std::string_view in_full(std::string_view word) { return word == "gossip" ? "gossip:exponential" : word; }

// The word without its number.
std::string_view kind_of(std::string_view word) { return word.substr(0, word.find(':')); }

// A word of the form name:number.
struct Numbered {
  std::string_view name;
  std::string_view what;  // the number is
  int least;
  int most;
};
constexpr Numbered kDelayed = {"delayed", "a number of steps", 1, 16};
constexpr Numbered kLocal = {"local", "a number of steps", 1, 1'000'000};
constexpr Numbered kSsp = {"ssp", "a number of clocks", 0, 1'000'000};
constexpr Numbered kEssp = {"essp", "a number of clocks", 0, 1'000'000};
constexpr Numbered kSoftsync = {"softsync", "a number of updates", 1, 1'000'000};
constexpr Numbered kServer = {"server", "a number of servers", 1, 1024};

struct KindOfWhen {
  When when;
  std::string_view name;
};
constexpr KindOfWhen kWhens[] = {{When::bsp, "bsp"},           {When::delayed, "delayed"}, {When::local, "local"},
                                 {When::async, "async"},       {When::ssp, "ssp"},         {When::essp, "essp"},
                                 {When::softsync, "softsync"}, {When::automatic, "auto"}};

struct KindOfWhere {
  Where where;
  std::string_view name;
  std::string_view implied_when;  // if nothing is said
};
// Whatever is none of the others is an algorithm's name.
constexpr KindOfWhere kWheres[] = {
    {Where::gossip, "gossip", "bsp"},
    {Where::hogwild, "hogwild", "async"},
    {Where::server, "server", "bsp"},
    {Where::allreduce, "", "bsp"},
};

const KindOfWhere& kind_of_where(std::string_view word) {
  for (const KindOfWhere& known : kWheres) {
    if (known.name.empty() || kind_of(word) == known.name) return known;
  }
  return kWheres[0];
}

// Which answers to `when` and `where` go together: one row for each pair of kinds.
enum class Meets { gradients, parameters, never };
struct Pair {
  When when;
  Where where;
  Meets meets;
  Coupling coupling = Coupling::all;
  std::string_view why_not = {};
  std::string_view instead = {};
};
constexpr Pair kPairs[] = {
    {When::bsp, Where::allreduce, Meets::gradients},
    {When::delayed, Where::allreduce, Meets::gradients},
    {When::local, Where::allreduce, Meets::parameters},
    {When::async, Where::allreduce, Meets::never, Coupling::none, "an allreduce waits for all workers, async for none",
     "where=gossip when=async"},
    {When::bsp, Where::gossip, Meets::parameters, Coupling::neighbours},
    {When::delayed, Where::gossip, Meets::never, Coupling::none,
     "gossip mixes parameters, and only gradients can be applied late", "where=gossip when=async"},
    {When::local, Where::gossip, Meets::never, Coupling::none,
     "local averages over all workers after its steps, gossip with some after each", "where=allreduce when=local:8"},
    {When::async, Where::gossip, Meets::parameters, Coupling::none},
    {When::bsp, Where::hogwild, Meets::never, Coupling::none,
     "hogwild's workers change one set of parameters without waiting for each other", "where=hogwild when=async"},
    {When::delayed, Where::hogwild, Meets::never, Coupling::none,
     "hogwild's workers change one set of parameters as soon as they have a gradient", "where=hogwild when=async"},
    {When::local, Where::hogwild, Meets::never, Coupling::none,
     "hogwild's workers have one set of parameters, of which there is nothing to average", "where=hogwild when=async"},
    {When::async, Where::hogwild, Meets::parameters, Coupling::none},
    {When::bsp, Where::server, Meets::parameters},
    {When::ssp, Where::server, Meets::parameters, Coupling::none},
    {When::essp, Where::server, Meets::parameters, Coupling::none},
    {When::async, Where::server, Meets::parameters, Coupling::none},
    {When::softsync, Where::server, Meets::parameters, Coupling::none},
    {When::ssp, Where::allreduce, Meets::never, Coupling::none,
     "an allreduce waits for all workers in every step, and there are no servers that could keep a bound",
     "where=server:1 when=ssp:3"},
    {When::ssp, Where::gossip, Meets::never, Coupling::none, "gossip has no centre that could keep count",
     "where=server:1 when=ssp:3"},
    {When::ssp, Where::hogwild, Meets::never, Coupling::none, "hogwild's workers wait for nobody",
     "where=server:1 when=ssp:3"},
    {When::essp, Where::allreduce, Meets::never, Coupling::none,
     "an allreduce waits for all workers in every step, and there are no servers that could keep a bound",
     "where=server:1 when=essp:3"},
    {When::essp, Where::gossip, Meets::never, Coupling::none, "gossip has no centre that could keep count",
     "where=server:1 when=essp:3"},
    {When::essp, Where::hogwild, Meets::never, Coupling::none, "hogwild's workers wait for nobody",
     "where=server:1 when=essp:3"},
    {When::softsync, Where::allreduce, Meets::never, Coupling::none, "softsync counts updates that arrive at a server",
     "where=server:1 when=softsync:2"},
    {When::softsync, Where::gossip, Meets::never, Coupling::none, "gossip has no centre that could keep count",
     "where=server:1 when=softsync:2"},
    {When::softsync, Where::hogwild, Meets::never, Coupling::none, "hogwild's workers wait for nobody",
     "where=server:1 when=softsync:2"},
    {When::automatic, Where::server, Meets::parameters, Coupling::none},
    {When::automatic, Where::allreduce, Meets::never, Coupling::none,
     "auto chooses a bound, and an allreduce waits for all workers in every step", "where=server:1 when=auto"},
    {When::automatic, Where::gossip, Meets::never, Coupling::none, "auto chooses a bound, and gossip has none",
     "where=server:1 when=auto"},
    {When::automatic, Where::hogwild, Meets::never, Coupling::none, "auto chooses a bound, and hogwild has none",
     "where=server:1 when=auto"},
    {When::delayed, Where::server, Meets::never, Coupling::none,
     "servers apply what arrives, and workers may read late by a bound instead", "where=server:1 when=ssp:1"},
    {When::local, Where::server, Meets::never, Coupling::none,
     "local averages over all workers after its steps, servers apply every push", "where=allreduce when=local:8"},
};

const Pair& pair_of(const Plan& plan) {
  for (const Pair& pair : kPairs) {
    if (pair.when == plan.timing() && pair.where == plan.route()) return pair;
  }
  throw Error(Code::invalid, fmt::format("nobody has said whether {} is possible", plan.text()));
}

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
      {"when",
       "sync",
       &Plan::when,
       {"bsp", "delayed:1", "local:1", "local:end", "async", "ssp:0", "essp:0", "softsync:1", "auto"},
       {kDelayed, kLocal, kSsp, kEssp, kSoftsync}},
      {"where", "comm", &Plan::where, routes(), {kServer}},
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
  const std::vector<std::string>& words = asked.words;
  if (std::find(words.begin(), words.end(), word) != words.end()) {
    this->*asked.answer = in_full(word);
    return;
  }
  for (const Numbered& known : asked.numbered) {
    const std::optional<int> number = number_of(known, word);
    if (!number) continue;
    this->*asked.answer = fmt::format("{}:{}", known.name, *number);
    return;
  }
  throw Error(Code::invalid, fmt::format("'{}' is not known as an answer to {}; there {}: {}", word, key,
                                         words.size() == 1 ? "is" : "are", fmt::join(words, ", ")));
}

std::string Plan::said_or_implied_when() const {
  return when.empty() ? std::string(kind_of_where(where).implied_when) : when;
}

When Plan::timing() const {
  const std::string word = said_or_implied_when();
  for (const KindOfWhen& known : kWhens) {
    if (kind_of(word) == known.name) return known.when;
  }
  throw Error(Code::invalid, fmt::format("'{}' is not known as an answer to when", word));
}

Where Plan::route() const { return kind_of_where(where).where; }
bool Plan::parameters_meet() const { return pair_of(*this).meets == Meets::parameters; }

Coupling Plan::coupling() const { return local_steps() == kUntilTheEnd ? Coupling::none : pair_of(*this).coupling; }

Algorithm Plan::algorithm() const {
  for (const Algorithm algorithm : algorithms_of(Collective::allreduce)) {
    if (where == name(algorithm)) return algorithm;
  }
  return Algorithm::automatic;
}

GossipGraph Plan::graph() const {
  for (const GossipGraph graph : kAllGossipGraphs) {
    if (where == fmt::format("gossip:{}", name(graph))) return graph;
  }
  return GossipGraph::exponential;
}

int Plan::servers() const { return number_of(kServer, where).value_or(0); }

Policy Plan::policy() const {
  return adapts() ? Policy{.kind = Policy::Kind::ssp, .number = 0} : parse_policy(said_or_implied_when());
}

int Plan::delay() const { return number_of(kDelayed, when).value_or(0); }

std::int64_t Plan::local_steps() const {
  if (when == "local:end") return kUntilTheEnd;
  return number_of(kLocal, when).value_or(0);
}

std::string Plan::text() const {
  return fmt::format("split={} when={} where={} what={}", split, said_or_implied_when(), where, what);
}

void check(const Plan& plan) {
  const Pair& pair = pair_of(plan);
  if (pair.meets != Meets::never) return;
  throw Error(Code::invalid, fmt::format("when={} and where={} exclude each other: {}; use {}", plan.when, plan.where,
                                         pair.why_not, pair.instead));
}

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
