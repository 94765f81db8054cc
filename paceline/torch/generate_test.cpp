#include "paceline/torch/generate.hpp"

#include <cmath>

#include "paceline/torch/model_test_support.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

const std::string kVocabulary = "\nabc";
const Form kTextForm = text_form(4, 4);

// Gives the character after the last one that it sees, and remembers how many it saw.
struct NextImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& input) {
    longest = std::max(longest, input.size(1));
    evaluated = !is_training();
    return torch::one_hot((input + 1) % 4, 4).to(torch::kFloat) * 100;
  }
  std::int64_t longest = 0;
  bool evaluated = false;
};
TORCH_MODULE(Next);

Model model_of(Next next) {
  return {.module = next.ptr(), .forward = [next](const torch::Tensor& input) mutable { return next->forward(input); }};
}

TEST(Generate, WritesOnAfterThePromptWithinTheWindow) {
  Next next;
  const Model model = model_of(next);
  EXPECT_EQ(generate(model, kTextForm, kVocabulary, "ab", {.count = 7, .temperature = 0}), "c\nabc\na");
  EXPECT_EQ(generate(model, kTextForm, kVocabulary, "abcabca", {.count = 2}), "bc");
  EXPECT_EQ(generate(model, kTextForm, kVocabulary, "", {.count = 2}), "ab");  // as after a line's end
  EXPECT_EQ(generate(model, kTextForm, kVocabulary, "a", {.count = 0}), "");
  EXPECT_EQ(next->longest, 4);
  EXPECT_TRUE(next->evaluated);
  EXPECT_TRUE(next->is_training());
}

// Always the same scores: draws follow softmax(scores / temperature).
TEST(Generate, DrawsFromTheModelsDistribution) {
  const Model model{.module = std::make_shared<torch::nn::Module>(), .forward = [](const torch::Tensor& input) {
                      return torch::log(torch::tensor({0.1, 0.2, 0.3, 0.4})).expand({1, input.size(1), 4});
                    }};
  const int count = 4000;
  for (const double temperature : {1.0, 0.5}) {
    const std::string text =
        generate(model, kTextForm, kVocabulary, "", {.count = count, .temperature = temperature, .seed = 9});
    const double p = temperature == 1.0 ? 0.4 : 0.16 / 0.30;  // squares of the probabilities
    const auto seen = static_cast<double>(std::count(text.begin(), text.end(), 'c'));
    EXPECT_NEAR(seen / count, p, 4 * std::sqrt(p * (1 - p) / count));
  }
}

TEST(Generate, IsRepeatedByItsSeedAlone) {
  const Form form = text_form(8, 4);
  for (const std::string spec : {"transformer:1,8,2", "lstm:1,8"}) {
    const Model model = seeded_model(spec, form);
    const auto text = [&](std::uint64_t seed) {
      return generate(model, form, kVocabulary, "abc", {.count = 40, .seed = seed});
    };
    EXPECT_EQ(text(1), text(1));
    EXPECT_NE(text(1), text(2));
  }
}

// Which character comes next depends on two before it.
TEST(Generate, GoesOnWithWhatAModelHasLearned) {
  const Form form = text_form(9, 2);
  const torch::Tensor cycle = torch::tensor({0, 0, 1}, torch::kLong).repeat({4});  // aabaabaabaab
  std::vector<torch::Tensor> windows;
  for (int first = 0; first < 3; ++first) windows.push_back(cycle.narrow(0, first, 9));
  const torch::Tensor input = torch::stack(windows).narrow(1, 0, 8), next = torch::stack(windows).narrow(1, 1, 8);
  for (const std::string spec : {"transformer:1,16,2", "lstm:1,16"}) {
    const Model model = seeded_model(spec, form);
    torch::optim::Adam adam(model.module->parameters(), 0.02);
    for (int step = 0; step < 100; ++step) {
      adam.zero_grad();
      torch::nn::functional::cross_entropy(model.forward(input).reshape({-1, 2}), next.reshape({-1})).backward();
      adam.step();
    }
    EXPECT_EQ(generate(model, form, "ab", "aa", {.count = 7, .temperature = 0}), "baabaab") << spec;
  }
}

TEST(Generate, RefusesWhatItCannotContinue) {
  const Model model = model_of(Next());
  const auto complaint = [&](const Form& form, const std::string& prompt, double temperature) {
    return sentence_of([&] { generate(model, form, kVocabulary, prompt, {.count = 1, .temperature = temperature}); });
  };
  EXPECT_EQ(complaint(kTextForm, "aXb", 1), "the prompt has a 'X', which was not in the text");
  EXPECT_EQ(complaint(kTextForm, "a\x01", 1), "the prompt has a byte 0x01, which was not in the text");
  EXPECT_TRUE(contains(complaint(kTextForm, "a", -1), "temperature"));
  EXPECT_TRUE(contains(complaint(kTextForm, "a", NAN), "temperature"));
  EXPECT_EQ(complaint(images(1, 4, 4), "a", 1), "only a model of text can write");
}

}  // namespace
}  // namespace paceline
