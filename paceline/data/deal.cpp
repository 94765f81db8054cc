#include "paceline/data/deal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/data/sampler.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kStreamOfDeals = 0x6465616cULL;  // apart from the orders that are drawn from the seed
constexpr std::string_view kDirichlet = "dirichlet:";
constexpr double kLeastAlpha = 0.01;  // below, gamma variables are zero too often
constexpr double kMostAlpha = 1e6;

std::vector<std::uint32_t> shuffled(std::size_t count, Random& random) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t left = count; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

using ByClass = std::array<std::vector<std::uint32_t>, kMaxClasses>;
using Mixture = std::array<double, kMaxClasses>;

// A point of Dirichlet's distribution around the classes' own shares, times a constant: gamma variables.
Mixture mixture_of(double alpha, const ByClass& examples, std::size_t samples, std::mt19937_64& random) {
  Mixture mixture{};
  for (std::size_t c = 0; c < mixture.size(); ++c) {
    const double share = static_cast<double>(examples[c].size()) / static_cast<double>(samples);
    if (share > 0) mixture[c] = std::gamma_distribution<double>(alpha * share)(random);
  }
  return mixture;
}

// A class that still has examples, by the mixture; where that has none left, any.
std::size_t draw_class(const Mixture& mixture, const ByClass& examples, Random& random) {
  double whole = 0;
  std::size_t last = 0;
  for (std::size_t c = 0; c < mixture.size(); ++c) {
    if (examples[c].empty()) continue;
    whole += mixture[c];
    last = c;
  }
  double at = random.uniform() * whole;
  for (std::size_t c = 0; c < mixture.size(); ++c) {
    if (examples[c].empty() || mixture[c] == 0) continue;
    if ((at -= mixture[c]) < 0) return c;
  }
  return last;
}

std::vector<std::uint32_t> deal_by_mixtures(const Deal& deal, std::span<const std::uint8_t> labels, int workers,
                                            Random& random) {
  ByClass left;
  for (const std::uint32_t example : shuffled(labels.size(), random)) left[labels[example]].push_back(example);
  const ByClass all = left;
  std::mt19937_64 gamma(random());
  std::vector<std::uint32_t> dealt;
  for (int worker = 0; worker < workers; ++worker) {
    const Mixture mixture = mixture_of(deal.alpha, all, labels.size(), gamma);
    const Range share = share_of(labels.size(), workers, worker);
    while (dealt.size() < share.last) {
      std::vector<std::uint32_t>& from = left[draw_class(mixture, left, random)];
      dealt.push_back(from.back());
      from.pop_back();
    }
  }
  return dealt;
}

}  // namespace

Deal parse_deal(const std::string& text) {
  if (text == "iid") return {};
  if (text == "by-label") return {.kind = Deal::Kind::by_label};
  if (text.starts_with(kDirichlet)) {
    double alpha = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + kDirichlet.size(), end, alpha);
    if (error == std::errc{} && last == end && alpha >= kLeastAlpha && alpha <= kMostAlpha)
      return {.kind = Deal::Kind::dirichlet, .alpha = alpha};
    throw Error(Code::invalid,
                fmt::format("'{}' needs a number from {} to {}, as in dirichlet:0.5", text, kLeastAlpha, kMostAlpha));
  }
  throw Error(Code::invalid,
              fmt::format("examples are dealt out iid, by-label or dirichlet:A, as in dirichlet:0.5, not '{}'", text));
}

void require_fit(const Deal& deal, const Form& form) {
  if (deal.kind == Deal::Kind::iid || (form.classes > 0 && form.kind != Kind::text)) return;
  throw Error(Code::invalid, fmt::format("by-label and dirichlet deal examples out by their class, and {} have none; "
                                         "use iid",
                                         to_string(form)));
}

std::vector<std::uint32_t> deal_out(const Deal& deal, std::span<const std::uint8_t> labels, int workers,
                                    std::uint64_t seed) {
  if (deal.kind == Deal::Kind::iid) return {};
  Random random(seed, kStreamOfDeals);
  if (deal.kind == Deal::Kind::dirichlet) return deal_by_mixtures(deal, labels, workers, random);
  std::vector<std::uint32_t> order = shuffled(labels.size(), random);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return labels[a] < labels[b]; });
  return order;
}

}  // namespace paceline
