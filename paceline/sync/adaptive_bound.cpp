#include "paceline/sync/adaptive_bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline {
namespace {

constexpr int kInVain = 3;             // raises
constexpr double kNoShorter = 0.8;     // of the share of waiting before
constexpr int kMostWindows = 1 << 12;  // between two attempts

}  // namespace

std::optional<AdaptiveBound::Change> AdaptiveBound::after(const Step& step) {
  ++window_.steps;
  window_.seconds += step.seconds;
  window_.waited += step.waited;
  if (std::isfinite(step.loss)) {
    window_.losses += step.loss;
    ++window_.known_losses;
  }
  if (window_.steps < options_.window) return std::nullopt;
  return decide(std::exchange(window_, {}));
}

std::optional<AdaptiveBound::Change> AdaptiveBound::decide(const Window& window) {
  if (raised_) {
    if (auto change = go_back(window)) return change;
  }
  calm_ = window.share() < options_.little ? calm_ + 1 : 0;
  if (alone_ > 0) {
    --alone_;
    return std::nullopt;
  }
  if (window.share() > options_.much) return raise(window);
  raised_.reset();  // it was worth it
  return calm_ >= calm_needed_ ? lower() : std::nullopt;
}

// Where raising has cost more than it brought.
std::optional<AdaptiveBound::Change> AdaptiveBound::go_back(const Window& window) {
  if (window.loss() > options_.worse * raised_->loss) {
    const std::string why = fmt::format("the loss has risen from {:.4g} to {:.4g} since the bound was raised",
                                        raised_->loss, window.loss());
    leave_alone();
    return change_to(bound_ / 2, why);
  }
  raised_->in_vain = window.share() > kNoShorter * raised_->share ? raised_->in_vain + 1 : 0;
  if (raised_->in_vain < kInVain) return std::nullopt;
  const int before = raised_->from;
  leave_alone();
  return change_to(before, "a larger bound has not made waiting shorter: somebody is slower all the time");
}

std::optional<AdaptiveBound::Change> AdaptiveBound::raise(const Window& window) {
  if (bound_ >= options_.most) return std::nullopt;
  if (std::exchange(lowered_, false)) calm_needed_ = std::min(2 * calm_needed_, kMostWindows);
  if (!raised_) raised_ = Raise{.from = bound_, .share = window.share(), .loss = window.loss(), .in_vain = 0};
  return change_to(std::min(options_.most, std::max(1, 2 * bound_)),
                   fmt::format("waited {:.0f}% of the last {} steps for others", 100 * window.share(), window.steps));
}

std::optional<AdaptiveBound::Change> AdaptiveBound::lower() {
  calm_ = 0;
  if (bound_ == 0) return std::nullopt;
  lowered_ = true;
  return change_to(bound_ - 1,
                   fmt::format("hardly waited for others in the last {} steps", calm_needed_ * options_.window));
}

AdaptiveBound::Change AdaptiveBound::change_to(int bound, std::string why) {
  return {.from = std::exchange(bound_, bound), .to = bound, .why = std::move(why)};
}

void AdaptiveBound::leave_alone() {
  raised_.reset();
  lowered_ = false;
  alone_ = std::exchange(next_alone_, std::min(2 * next_alone_, kMostWindows));
}

}  // namespace paceline
