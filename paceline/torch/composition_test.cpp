// Everything that can be asked of a DataParallel, together: each pair of features, and all of them, with every legal
// plan in which gradients meet. A sample by default, all in the slow test.
#include <random>

#include "paceline/torch/scenario_test_support.hpp"

namespace paceline {
namespace {

constexpr int kScenarioSteps = 60;
enum Feature { accumulation, clipping, unused, sparse, joining, kFeatures };

struct Case {
  std::vector<bool> features;
  std::string plan;
  int ranks = 2;

  bool has(Feature feature) const { return features[feature]; }
  std::string text() const {
    std::string words = plan + " on " + std::to_string(ranks) + " ranks with";
    const char* names[] = {" accumulation", " clipping", " unused", " sparse", " join"};
    for (std::size_t i = 0; i < kFeatures; ++i) words += features[i] ? names[i] : "";
    return words;
  }
};

// One feature (a pair with `delayed` is one with a plan that has it), each pair, and all.
std::vector<std::vector<bool>> feature_sets() {
  std::vector<std::vector<bool>> sets = {std::vector<bool>(kFeatures, true)};
  for (std::size_t a = 0; a < kFeatures; ++a) {
    for (std::size_t b = a; b < kFeatures; ++b) {
      sets.emplace_back(kFeatures, false);
      sets.back()[a] = sets.back()[b] = true;
    }
  }
  return sets;
}

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const std::string& when : plan_words("when")) {
    for (const std::string& where : plan_words("where")) {
      const Plan plan = parse_plan("when=" + when + " where=" + where);
      const bool gradients_meet = plan.timing() == When::bsp || plan.timing() == When::delayed;
      if (plan.route() != Where::allreduce || !gradients_meet) continue;
      for (const auto& features : feature_sets()) {
        for (const int ranks : {2, 3}) cases.push_back({features, "when=" + when + " where=" + where, ranks});
      }
    }
  }
  return cases;
}

Scenario scenario_of(const Case& c) {
  Scenario scenario{.ranks = c.ranks,
                    .plan = c.plan,
                    .optimizer = c.has(sparse) ? "sgd" : "momentum",  // SGD's momentum takes no sparse gradients
                    .steps = kScenarioSteps,
                    .accumulate = c.has(accumulation),
                    .clip = c.has(clipping) ? 0.5 : 0,
                    .unused = c.has(unused),
                    .sparse = c.has(sparse)};
  if (c.has(joining)) {
    for (int rank = 0; rank < c.ranks; ++rank) scenario.batches.push_back(kScenarioSteps - 7 * rank);
  }
  return scenario;
}

void try_case(const Case& c) {
  const Scenario scenario = scenario_of(c);
  const ScenarioParameters expected = reference_of(scenario);
  for (const ScenarioResult& found : train_scenario(scenario)) {
    EXPECT_TRUE(close(found.parameters, expected)) << c.text();
    EXPECT_LT(found.last_loss, 0.6 * found.first_loss) << c.text();
  }
}

TEST(Composition, ASampleOfFeaturesAndPlansTrainsAsThePlainLoopDoes) {
  std::vector<Case> cases = every_case();
  std::mt19937 random(12);
  std::shuffle(cases.begin(), cases.end(), random);
  for (std::size_t i = 0; i < 10; ++i) try_case(cases[i]);
}

TEST(Composition, SlowEveryPairOfFeaturesWithEveryPlanTrainsAsThePlainLoopDoes) {
  for (const Case& c : every_case()) try_case(c);
}

}  // namespace
}  // namespace paceline
