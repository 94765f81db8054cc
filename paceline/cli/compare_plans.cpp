#include "paceline/cli/compare_plans.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "paceline/cli/parse_sentence.hpp"
#include "paceline/cli/train_options.hpp"
#include "paceline/core/error.hpp"
#include "paceline/data/open.hpp"
#include "paceline/launch/cores.hpp"

namespace paceline {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kBlanks = " \t\r";
constexpr std::size_t kLongestName = 64;
constexpr const char* kOwnOptions[] = {"--out", "--seed", "--json", "--quiet", "--resume"};

[[noreturn]] void refuse(int line, const std::string& why) {
  throw Error(Code::invalid, fmt::format("line {} of the plans: {}", line, why));
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// A word may be in quotes, or a part of it: --out "a b".
Words split_words(const std::string& text, int line) {
  Words words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      inside = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (inside) words.push_back(std::exchange(word, {}));
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0) refuse(line, fmt::format("the quote {} does not end", quote));
  if (inside) words.push_back(word);
  return words;
}

void check_name(const PlanLine& plan) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  const std::string& name = plan.name;
  if (name.empty()) refuse(plan.line, "there is no name before the colon");
  if (name.size() > kLongestName || name[0] == '.' || !std::all_of(name.begin(), name.end(), fits))
    refuse(plan.line,
           fmt::format("'{}' cannot be a plan's name, which becomes a folder's: letters, digits, - _ .", name));
}

PlanLine parse_line(const std::string& text, int line) {
  const std::size_t colon = text.find(':');
  // `--data digits` alone: a colon of an option's value is not the one after a name.
  if (colon == std::string::npos || text.find_first_of(kBlanks) < colon)
    refuse(line, fmt::format("'{}' has no name; a plan is NAME: OPTIONS, as in `ring: --where ring`", text));
  PlanLine plan{.line = line, .name = text.substr(0, colon), .options = trimmed(text.substr(colon + 1))};
  check_name(plan);
  plan.words = split_words(plan.options, line);
  return plan;
}

// Options by their names, as words that give each again.
using Options = std::map<std::string, Words>;

// Lets train's own options read the words; reads into `arguments`.
Options read_options(const Words& words, TrainArguments& arguments) {
  CLI::App app;
  app.set_help_flag();
  add_train_options(app, arguments);
  Words reversed(words.rbegin(), words.rend());
  app.parse(reversed);
  Options given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const bool flag = option->get_items_expected_max() == 0;
    for (const std::string& value : option->results())
      given[option->get_name()].push_back(flag ? option->get_name() : fmt::format("{}={}", option->get_name(), value));
  }
  for (const char* own : kOwnOptions) {
    if (given.contains(own)) throw Error(Code::invalid, fmt::format("{} is set by compare itself", own));
  }
  return given;
}

template <typename Work>
auto with_sentence(const std::string& where, Work work) try {
  return work();
} catch (const CLI::ParseError& error) {
  throw Error(Code::invalid,
              fmt::format("{}: {}; `paceline train --help` lists what there is", where, parse_sentence(error)));
} catch (const Error& error) {
  throw Error(error.code(), fmt::format("{}: {}", where, error.what()));
}

Words merged(const Options& common, const Options& own) {
  Options all = own;
  all.insert(common.begin(), common.end());  // leaves alone what is there
  Words words;
  for (const auto& [name, values] : all) words.insert(words.end(), values.begin(), values.end());
  return words;
}

// Data sets that plans share are opened once.
using OpenData = std::map<std::string, DataSplit>;

void check_plan(const PlanLine& plan, OpenData& data) {
  TrainArguments arguments;
  read_options(plan.merged, arguments);
  read_words(arguments);
  if (arguments.hosts.several()) return;  // the hosts have it
  TrainConfig& config = arguments.config;
  config.workers = arguments.workers > 0 ? arguments.workers : default_threads(allowed_cores().size(), core_quota(), 1);
  if (!data.contains(config.data)) data.emplace(config.data, open_data(config.data));
  resolve(config, data.at(config.data));
}

}  // namespace

std::vector<PlanLine> parse_plans(const std::string& text) {
  std::vector<PlanLine> plans;
  std::set<std::string> names;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string content = trimmed(line);
    if (content.empty() || content[0] == '#') continue;
    plans.push_back(parse_line(content, number));
    if (!names.insert(plans.back().name).second)
      refuse(number, fmt::format("there is a plan '{}' already", plans.back().name));
  }
  if (plans.empty())
    throw Error(Code::invalid,
                "the file of plans has none; a plan is a line NAME: OPTIONS, as in `ring: --where ring`");
  return plans;
}

void check_plans(std::vector<PlanLine>& plans, const std::vector<std::string>& common) {
  TrainArguments ignored;
  const Options shared = with_sentence("the options after --", [&] { return read_options(common, ignored); });
  OpenData data;
  for (PlanLine& plan : plans) {
    with_sentence(fmt::format("line {} of the plans, '{}'", plan.line, plan.name), [&] {
      TrainArguments own;
      plan.merged = merged(shared, read_options(plan.words, own));
      check_plan(plan, data);
    });
  }
}

}  // namespace paceline
