#include "paceline/torch/optimizer_spec.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/torch/complaint_test_support.hpp"

namespace paceline {
namespace {

TEST(OptimizerSpec, ANameAloneIsAsUsual) {
  for (const std::string& name : known_optimizers()) {
    const OptimizerSpec spec = parse_optimizer(name);
    EXPECT_EQ(spec.text(), name);
    EXPECT_EQ(spec.rate(), default_rate(name));
    EXPECT_GT(spec.rate(), 0);
    check_optimizer(spec);
    EXPECT_NE(optimizer_help().find(name), std::string::npos);
  }
  EXPECT_EQ(parse_optimizer("adam").setting("beta2"), 0.999);
  EXPECT_EQ(parse_optimizer("lamb").setting("eps"), 1e-6);
}

TEST(OptimizerSpec, SettingsAreReadAndWritten) {
  const OptimizerSpec spec = parse_optimizer("lars:momentum=0.5,eta=1e-2");
  EXPECT_EQ(spec.setting("momentum"), 0.5);
  EXPECT_EQ(spec.setting("eta"), 0.01);
  EXPECT_EQ(spec.setting("eps"), 1e-8);
  EXPECT_EQ(spec.text(), "lars:eta=0.01,momentum=0.5");
  EXPECT_EQ(parse_optimizer(spec.text()).settings, spec.settings);
}

TEST(OptimizerSpec, RefusesInOneSentence) {
  const auto refusal = [](const std::string& text) { return complaint([&] { parse_optimizer(text); }); };
  EXPECT_EQ(
      refusal("lion"),
      "there is no optimizer 'lion'; there are sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, lars, lamb");
  EXPECT_EQ(refusal("adam:alpha=1"), "optimizer adam has no setting 'alpha'; it has beta1, beta2, eps");
  EXPECT_EQ(refusal("sgd:momentum=0.9"), "optimizer sgd has no settings, so no 'momentum'");
  EXPECT_EQ(refusal("adam:beta1=1"), "beta1 of optimizer adam is at least 0 and below 1, not 1");
  EXPECT_EQ(refusal("adam:eps=-1"), "eps of optimizer adam is at least 0, not -1");
  EXPECT_EQ(refusal("adam:eps=x"), "'x' in --optimizer adam:eps=x is not a number");
  for (const std::string bad :
       {"", "adam:", "adam:eps", "adam:eps=", "adam:eps=nan", "adam:eps=1,", "nesterov:momentum=0"})
    EXPECT_NE(refusal(bad), "") << bad;
}

TEST(OptimizerSpec, RatesAndDecayAreNumbersFromZero) {
  for (const double bad : {-1.0, double(NAN), double(INFINITY)}) {
    EXPECT_NE(complaint([&] { check_optimizer({.name = "sgd", .lr = bad}); }), "");
    EXPECT_NE(complaint([&] { check_optimizer({.name = "sgd", .weight_decay = bad}); }), "");
  }
}

}  // namespace
}  // namespace paceline
