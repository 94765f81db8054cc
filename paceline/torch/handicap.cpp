#include "paceline/torch/handicap.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kStreamOfHandicaps = 0x68616e6469636170ULL;  // apart from what else is drawn from the seed
constexpr double kMostFactor = 1000;
constexpr int kMostRank = 65535;

template <class T>
bool read(std::string_view digits, T& value) {
  const char* const end = digits.data() + digits.size();
  const auto [last, error] = std::from_chars(digits.data(), end, value);
  return error == std::errc{} && last == end;
}

}  // namespace

double Handicap::extra(std::int64_t step, int worker, int workers, std::uint64_t seed) const {
  if (factor == 1) return 0;
  Random random(mix(seed, kStreamOfHandicaps), static_cast<std::uint64_t>(step));
  const int slow = rank == kAnyone ? static_cast<int>(random.below(static_cast<std::uint64_t>(workers))) : rank;
  return worker == slow ? factor - 1 : 0;
}

Handicap parse_handicap(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t first = text.find(':');
  const std::size_t last = text.rfind(':');
  const std::string kind = text.substr(0, first);
  const std::string_view all = text;
  Handicap handicap;
  bool good = first != std::string::npos && read(all.substr(last + 1), handicap.factor) && handicap.factor >= 1 &&
              handicap.factor <= kMostFactor;
  if (kind == "fixed") {
    good = good && first < last && read(all.substr(first + 1, last - first - 1), handicap.rank) && handicap.rank >= 0 &&
           handicap.rank <= kMostRank;
  } else {
    good = good && kind == "random" && first == last;
  }
  if (good) return handicap;
  throw Error(
      Code::invalid,
      fmt::format("a handicap is random:FACTOR or fixed:RANK:FACTOR with a factor from 1 to {}, as in random:3, "
                  "not '{}'",
                  kMostFactor, text));
}

void require_worker(const Handicap& handicap, int workers) {
  if (handicap.rank < workers) return;
  throw Error(Code::invalid,
              fmt::format("--handicap slows worker {} down, but there are {}, counted from 0", handicap.rank, workers));
}

}  // namespace paceline
