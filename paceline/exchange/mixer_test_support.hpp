// What the tests of mixers share: ranks with some parameters in two ranges, f32 and f64, that a test changes as
// optimizers would.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "paceline/exchange/mixer.hpp"
#include "paceline/exchange/sites.hpp"
#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/shm/shm.hpp"

namespace paceline {

class MixedRank {
 public:
  static constexpr std::size_t kFloats = 1000, kDoubles = 37;

  using Rate = std::function<double()>;
  MixedRank(
      Endpoint& endpoint, const std::string& plan, const MixChoices& choices = {}, Rate rate = [] { return 1.0; })
      : MixedRank(endpoint) {
    mixer_ = make_mixer(communicator_, parse_plan(plan), options(choices, std::move(rate)));
  }
  // With a plan between sites.
  MixedRank(
      Endpoint& endpoint, const Sites& sites, const std::string& between, const MixChoices& choices = {},
      Rate rate = [] { return 1.0; })
      : MixedRank(endpoint) {
    mixer_ = make_mixer(communicator_, sites, parse_plan(between), options(choices, std::move(rate)));
  }

  std::span<float> floats() const { return arena_.as<float>().first(kFloats); }
  std::span<double> doubles() const { return doubles_.as<double>().first(kDoubles); }
  Mixer& mixer() { return *mixer_; }
  Communicator& communicator() { return communicator_; }

  // Every element, as an optimizer would.
  void change(const std::function<double(double, std::size_t)>& to) const {
    for (std::size_t i = 0; i < kFloats; ++i) floats()[i] = static_cast<float>(to(floats()[i], i));
    for (std::size_t i = 0; i < kDoubles; ++i) doubles()[i] = to(doubles()[i], i);
  }
  void add(double amount) const {
    change([&](double x, std::size_t) { return x + amount; });
  }
  // All elements are this number.
  void expect(double number, double error = 0) const {
    for (const float x : floats()) ASSERT_NEAR(x, number, error);
    for (const double x : doubles()) ASSERT_NEAR(x, number, error);
  }

 private:
  explicit MixedRank(Endpoint& endpoint)
      : communicator_(
            Communicator::beside(endpoint, Group::world(endpoint.size()), "mixer test", {.time_waits = true})),
        arena_(endpoint.allocate(kFloats * sizeof(float))),
        doubles_(endpoint.allocate(kDoubles * sizeof(double))) {}
  MixerOptions options(const MixChoices& choices, Rate rate) const {
    return {.parameters = {view(floats()), view(doubles())}, .choices = choices, .learning_rate = std::move(rate)};
  }

  Communicator communicator_;
  Arena arena_, doubles_;
  std::unique_ptr<Mixer> mixer_;
};

inline void run_shm_threads(int n, const std::function<void(Endpoint&)>& body) {
  run_ranks(shm::make_shm_thread_endpoints(n), body);
}

}  // namespace paceline
