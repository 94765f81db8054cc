#include "paceline/server/update_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/server/update_kernels.hpp"

namespace paceline {
namespace {

// The formulas of torch::optim, and of McMahan et al. 2013, one element at a time in double precision.
struct Element {
  double value = 0;
  double s0 = 0;
  double s1 = 0;

  void turn(const UpdateRule& rule, double g, int step, double scale) {
    const double rate = rule.lr * scale;
    const double decayed = g + rule.weight_decay * value;
    switch (rule.kind) {
      case RuleKind::add: value += scale * g; return;
      case RuleKind::sgd: value -= rate * decayed; return;
      case RuleKind::momentum:
        s0 = step == 1 ? decayed : rule.momentum * s0 + decayed;
        value -= rate * s0;
        return;
      case RuleKind::adagrad:
        s0 += decayed * decayed;
        value -= rate * decayed / (std::sqrt(s0) + rule.epsilon);
        return;
      case RuleKind::rmsprop:
        s0 = rule.alpha * s0 + (1 - rule.alpha) * decayed * decayed;
        value -= rate * decayed / (std::sqrt(s0) + rule.epsilon);
        return;
      case RuleKind::adam: return adam(rule, decayed, step, rate);
      case RuleKind::ftrl: return ftrl(rule, scale * g);
    }
  }

  void adam(const UpdateRule& rule, double g, int step, double rate) {
    s0 = rule.beta1 * s0 + (1 - rule.beta1) * g;
    s1 = rule.beta2 * s1 + (1 - rule.beta2) * g * g;
    const double mean = s0 / (1 - std::pow(rule.beta1, step));
    const double square = s1 / (1 - std::pow(rule.beta2, step));
    value -= rate * mean / (std::sqrt(square) + rule.epsilon);
  }

  void ftrl(const UpdateRule& rule, double g) {
    const double sigma = (std::sqrt(s1 + g * g) - std::sqrt(s1)) / rule.lr;
    s0 += g - sigma * value;
    s1 += g * g;
    const double sign = s0 < 0 ? -1 : 1;
    value = std::abs(s0) <= rule.l1 ? 0 : -(s0 - sign * rule.l1) / ((rule.beta + std::sqrt(s1)) / rule.lr + rule.l2);
  }
};

const std::vector<std::string> kRules = {"add",
                                         "sgd:0.1",
                                         "sgd:0.1,weight_decay=0.01",
                                         "momentum:0.05",
                                         "momentum:0.05,momentum=0.5,weight_decay=0.1",
                                         "adagrad:0.1",
                                         "rmsprop:0.01",
                                         "rmsprop:0.01,alpha=0.9,weight_decay=0.01",
                                         "adam:0.001",
                                         "adam:0.01,beta1=0.8,beta2=0.9,weight_decay=0.01",
                                         "ftrl:0.1",
                                         "ftrl:0.1,l1=0.5,l2=0.1,beta=2"};

TEST(UpdateRule, EveryKernelFollowsTheFormulasForAllCountsOverManySteps) {
  Random random(1);
  for (const std::string& text : kRules) {
    const UpdateRule rule = parse_rule(text);
    for (const std::size_t count : {0u, 1u, 3u, 4u, 7u, 8u, 9u, 16u, 33u, 100u}) {
      std::vector<float> values(count), state(2 * count, 0.0f), gradient(count);
      std::vector<Element> expected(count);
      for (std::size_t i = 0; i < count; ++i)
        expected[i].value = values[i] = static_cast<float>(random.uniform() - 0.5);
      for (int step = 1; step <= 20; ++step) {
        const double scale = step % 3 == 0 ? 0.5 : 1;
        for (float& g : gradient) g = static_cast<float>(2 * random.uniform() - 1);
        apply(rule, {.values = values.data(),
                     .state = state.data(),
                     .gradient = gradient.data(),
                     .count = count,
                     .state_spacing = count,
                     .step = static_cast<std::uint64_t>(step),
                     .scale = scale});
        for (std::size_t i = 0; i < count; ++i) {
          expected[i].turn(rule, gradient[i], step, scale);
          ASSERT_NEAR(values[i], expected[i].value, 2e-5 * std::max(1.0, std::abs(expected[i].value)))
              << text << " element " << i << " of " << count << " step " << step;
        }
      }
    }
  }
}

TEST(UpdateRule, TheStateIsWhatTheFormulasKeep) {
  for (const std::string& text : kRules) {
    const UpdateRule rule = parse_rule(text);
    std::vector<float> values(9, 0.5f), state(18, 0.0f);
    const std::vector<float> gradient(9, 0.25f);
    Element expected{.value = 0.5};
    apply(
        rule,
        {.values = values.data(), .state = state.data(), .gradient = gradient.data(), .count = 9, .state_spacing = 9});
    expected.turn(rule, 0.25, 1, 1);
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_NEAR(state[i], expected.s0, 1e-6) << text;
      EXPECT_NEAR(state[9 + i], expected.s1, 1e-6) << text;
    }
    const std::size_t used = expected.s1 != 0 ? 2 : expected.s0 != 0 ? 1 : 0;
    EXPECT_EQ(state_floats(rule.kind), used) << text;
  }
}

TEST(UpdateRule, NothingOutsideOfTheRowIsTouched) {
  for (const std::string& text : kRules) {
    std::vector<float> values(12, 3.0f), state(30, 5.0f), gradient(12, 1.0f);
    const UpdateRule rule = parse_rule(text);
    apply(rule, {.values = &values[1], .state = &state[1], .gradient = &gradient[1], .count = 10, .state_spacing = 15});
    EXPECT_EQ(values[0], 3.0f) << text;
    EXPECT_EQ(values[11], 3.0f) << text;
    for (const std::size_t i : {0u, 11u, 12u, 13u, 14u, 15u, 26u, 27u, 28u, 29u})
      EXPECT_EQ(state[i], 5.0f) << text << i;
  }
}

TEST(UpdateRule, ManyRowsInOneCallAreEachTheirOwn) {
  const UpdateRule rule = parse_rule("adam:0.1");
  StepNumbers steps(rule);
  std::vector<RuleNumbers> numbers;
  std::vector<RowPointers> pointers;
  std::vector<float> values(15, 1.0f), state(30, 0.0f), gradients(15, 0.5f);
  for (std::size_t r = 0; r < 3; ++r) {
    numbers.push_back(steps.at(r + 1));
    pointers.push_back({&values[5 * r], &state[10 * r], &gradients[5 * r]});
  }
  update_rows(rule.kind, numbers, pointers, {.width = 5, .state_spacing = 5});
  for (int r = 0; r < 3; ++r) {
    Element expected{.value = 1};
    expected.turn(rule, 0.5, r + 1, 1);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(values[5 * static_cast<std::size_t>(r) + i], expected.value, 1e-6);
  }
}

TEST(UpdateRule, AdamsCorrectionIsRightFarBeyondWhatIsRemembered) {
  const UpdateRule rule = parse_rule("adam:0.001,beta2=0.99999");
  StepNumbers steps(rule);
  for (const std::uint64_t step : {1u, 2u, 1000u, 2u, 40000u, 1u, 3000000u}) {
    const auto t = static_cast<double>(step);
    EXPECT_NEAR(steps.at(step).root, std::sqrt(1 - std::pow(0.99999, t)), 1e-7);
    EXPECT_NEAR(steps.at(step).rate, 0.001 / (1 - std::pow(0.9, t)), 1e-9);
  }
}

TEST(UpdateRule, TextAndParsingAreEachOthersInverse) {
  for (const std::string& text : kRules) {
    const UpdateRule rule = parse_rule(text);
    EXPECT_EQ(parse_rule(rule.text()), rule) << text;
  }
  EXPECT_EQ(parse_rule("add").text(), "add");
  EXPECT_EQ(parse_rule("sgd:0.1").text(), "sgd:0.1");
  EXPECT_EQ(parse_rule("adam:lr=0.5,beta1=0.5,eps=1e-8").text(), "adam:0.5,beta1=0.5");
  EXPECT_EQ(parse_rule("adam").lr, 0.001);
}

TEST(UpdateRule, EveryKindHasItsNameAndIsInTheHelp) {
  for (const RuleKind kind : kAllRuleKinds) {
    const std::string name = UpdateRule{.kind = kind}.text().substr(0, UpdateRule{.kind = kind}.text().find(':'));
    EXPECT_EQ(parse_rule(name).kind, kind);
    EXPECT_NE(rule_help().find(name), std::string::npos);
  }
}

TEST(UpdateRule, NonsenseIsRefusedWithASentence) {
  const auto complaint = [](const std::string& text) {
    try {
      parse_rule(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(complaint("adamax").find("there are add, sgd, momentum, adagrad, rmsprop, adam, ftrl"), std::string::npos);
  EXPECT_NE(complaint("").find("no update rule ''"), std::string::npos);
  EXPECT_NE(complaint("add:0.1").find("no settings"), std::string::npos);
  EXPECT_NE(complaint("sgd:fast").find("not a number"), std::string::npos);
  EXPECT_NE(complaint("sgd:nan").find("not a number"), std::string::npos);
  EXPECT_NE(complaint("sgd:-1").find("at least 0"), std::string::npos);
  EXPECT_NE(complaint("sgd:0.1,0.2").find("KEY=VALUE"), std::string::npos);
  EXPECT_NE(complaint("adam:0.1,beta1=1").find("below 1"), std::string::npos);
  EXPECT_NE(complaint("adam:0.1,l1=1").find("it has lr, beta1, beta2, eps"), std::string::npos);
  EXPECT_NE(complaint("ftrl:0").find("lr of update rule ftrl"), std::string::npos);
}

TEST(UpdateRule, OnlyRulesThatSumAreLinear) {
  for (const std::string& text : kRules) {
    EXPECT_EQ(is_linear(parse_rule(text)), text == "add" || text == "sgd:0.1") << text;
  }
}

TEST(DelayCompensation, MatchesTheFormulaForAllCounts) {
  Random random(2);
  for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 50u}) {
    std::vector<float> gradient(count), now(count), then(count);
    for (auto* values : {&gradient, &now, &then}) {
      for (float& value : *values) value = static_cast<float>(random.uniform() - 0.5);
    }
    const std::vector<float> before = gradient;
    compensate_delay({.gradient = gradient.data(), .now = now.data(), .then = then.data(), .count = count}, 2.0);
    for (std::size_t i = 0; i < count; ++i) {
      const double g = before[i];
      EXPECT_NEAR(gradient[i], g + 2.0 * g * g * (double{now[i]} - double{then[i]}), 1e-6);
    }
  }
}

}  // namespace
}  // namespace paceline
