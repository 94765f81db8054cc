#include "paceline/exchange/sites.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "paceline/core/error.hpp"
#include "paceline/exchange/mix_choices.hpp"

namespace paceline {
namespace {

constexpr int kMostSites = 65536;

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// A number of sites, unless the words are names.
std::optional<int> number_in(std::string_view words) {
  int number = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), number);
  if (words.empty() || end != words.data() + words.size()) return std::nullopt;
  if (error == std::errc{} && number >= 2 && number <= kMostSites) return number;
  throw Error(Code::invalid,
              fmt::format("there are two sites or more, not {}; without them leave --between-sites out", words));
}

// Of each name, the number of its site.
std::vector<std::pair<std::string_view, int>> named_sites(std::string_view words) {
  std::vector<std::pair<std::string_view, int>> sites;
  std::set<std::string_view> known;
  int site = 0;
  for (const std::string_view hosts : parts_of(words, '/')) {
    for (const std::string_view name : parts_of(hosts, ',')) {
      if (name.empty())
        throw Error(Code::invalid, fmt::format("a site of '{}' has no host; write sites as a,b/c,d", words));
      if (!known.insert(name).second)
        throw Error(Code::invalid, fmt::format("host {} is in '{}' twice; each host belongs to one site", name, words));
      sites.emplace_back(name, site);
    }
    ++site;
  }
  if (site < 2)
    throw Error(Code::invalid,
                fmt::format("'{}' is one site; write two or more as a,b/c,d, or how many there are", words));
  return sites;
}

Sites equal_sites(int wanted, std::span<const int> hosts) {
  const int count = hosts.empty() ? 0 : 1 + *std::max_element(hosts.begin(), hosts.end());
  if (count < wanted)
    throw Error(Code::invalid, fmt::format("{} sites would leave some without a worker: there {} {} host{}", wanted,
                                           count == 1 ? "is" : "are", count, count == 1 ? "" : "s"));
  if (count % wanted != 0)
    throw Error(Code::invalid, fmt::format("{} hosts do not make {} sites of as many hosts each; name them, as in "
                                           "--sites a,b/c",
                                           count, wanted));
  std::vector<int> sites;
  for (const int host : hosts) sites.push_back(host / (count / wanted));
  return make_sites(sites);
}

Sites sites_by_name(std::string_view words, std::span<const std::string> names) {
  const auto known = named_sites(words);
  std::vector<int> sites;
  for (const std::string& name : names) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == name; });
    if (found == known.end())
      throw Error(Code::invalid, fmt::format("host {} has workers and belongs to none of the sites '{}'", name, words));
    sites.push_back(found->second);
  }
  for (const auto& [name, site] : known) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error(Code::invalid, fmt::format("no worker is on host {}, which '{}' names; there are {}", name, words,
                                             fmt::join(std::set(names.begin(), names.end()), ", ")));
  }
  return make_sites(sites);
}

// In the order in which they come first.
std::vector<int> numbered(std::span<const int> values) {
  std::vector<int> seen, result;
  for (const int value : values) {
    const auto found = std::find(seen.begin(), seen.end(), value);
    result.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(value);
  }
  return result;
}

}  // namespace

int Sites::count() const { return of_rank.empty() ? 0 : 1 + *std::max_element(of_rank.begin(), of_rank.end()); }

int Sites::workers_of(int site) const { return static_cast<int>(std::count(of_rank.begin(), of_rank.end(), site)); }

int Sites::first_of(int site) const {
  return static_cast<int>(std::find(of_rank.begin(), of_rank.end(), site) - of_rank.begin());
}

std::string Sites::text() const {
  std::vector<int> sizes;
  for (int site = 0; site < count(); ++site) sizes.push_back(workers_of(site));
  const bool alike = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
  if (alike) sizes.resize(1);
  const bool one = alike && sizes[0] == 1;
  return fmt::format("{} sites of {} worker{}", count(), fmt::join(sizes, " + "), one ? "" : "s");
}

Sites make_sites(std::span<const int> of_rank) {
  Sites sites{numbered(of_rank)};
  if (sites.count() >= 2) return sites;
  throw Error(Code::invalid,
              "a plan between sites needs two sites or more, and all workers are at one; start them on several hosts, "
              "or let --split-host N make hosts of every N workers of this one");
}

Sites parse_sites(std::string_view words, std::span<const int> hosts, std::span<const std::string> names) {
  const std::vector<int> numbers = numbered(hosts);
  if (words.empty()) return make_sites(numbers);
  if (const auto number = number_in(words)) return equal_sites(*number, numbers);
  return sites_by_name(words, names);
}

void check_sites(std::string_view words) {
  if (!words.empty() && !number_in(words)) named_sites(words);
}

void check_between_sites(const Plan& inside, const Plan& between) {
  check(between);
  if (inside.timing() != When::bsp || inside.route() != Where::allreduce)
    throw Error(Code::invalid,
                fmt::format("inside a site gradients meet in every step if there is another plan between "
                            "sites: when=bsp, with where=allreduce or an algorithm by name, not {}",
                            inside.text()));
  if (between.timing() != When::local || between.route() != Where::allreduce)
    throw Error(Code::invalid, fmt::format("between sites parameters are averaged after every K steps: when=local:16, "
                                           "with where=allreduce or an algorithm by name, not {}",
                                           between.text()));
  if (between.local_steps() == Plan::kUntilTheEnd)
    throw Error(Code::invalid,
                "between sites when=local:end would have nobody hear of a signal until an epoch ends; use when=local:K "
                "with as many steps as you like");
}

void check_between_sites(const Plan& inside, const Plan& between, const MixChoices& choices) {
  check_between_sites(inside, between);
  check(between, choices);
  if (choices.participate < 1)
    throw Error(Code::invalid,
                "a share that takes part is drawn among workers that step on their own, and inside a site they step "
                "together; use when=local:8 without a plan between sites");
}

}  // namespace paceline
