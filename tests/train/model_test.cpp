// The trained model, as a program that links LibTorch gets it.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "paceline/data/batch.hpp"
#include "paceline/data/open.hpp"
#include "paceline/torch/models.hpp"
#include "paceline/torch/task.hpp"
#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

double accuracy_on(const Model& model, const Dataset& data, const Normalisation& normalisation) {
  std::vector<std::uint32_t> all(data.size());
  std::iota(all.begin(), all.end(), 0U);
  Batch batch;
  fill(batch, data, normalisation, all);
  const torch::NoGradGuard no_grad;
  const torch::Tensor outputs = model.forward(inputs_of(batch, data.form()));
  const torch::Tensor answers = answers_of(batch, data.form());
  return tally_of(loss_of(outputs, answers, data.form()), outputs, answers, data.form()).accuracy();
}

// A linear layer for the digits of 8x8, as a user's own program would write it.
std::string write_script(const std::string& path) {
  torch::jit::Module script("Linear");
  script.register_parameter("weight", torch::zeros({10, 64}, torch::requires_grad()), false);
  script.register_parameter("bias", torch::zeros({10}, torch::requires_grad()), false);
  script.define("def forward(self, x):\n  return torch.addmm(self.bias, x.flatten(1), self.weight.t())\n");
  script.save(path);
  return path;
}

TEST(TrainModel, LoadsElsewhereAndIsAsGoodAsReported) {
  const std::string script = write_script(testing::TempDir() + "paceline_script_" + std::to_string(getpid()) + ".pt");
  for (const std::string& name : {std::string("softmax"), std::string("mlp:16"), "script:" + script}) {
    const TrainRun run;
    const Ended ended = run.train({"--model", name, "--data", "digits", "--workers", "2", "--epochs", "4"});
    const double reported = json_lines(ended.output).back().at("test_accuracy");
    const DataSplit digits = open_data("digits");
    const Model model = make_model(parse_model(name), digits.train.form());
    torch::load(model.module, run.path("model.pt"));
    model.module->eval();
    EXPECT_DOUBLE_EQ(accuracy_on(model, digits.test, digits.normalisation), reported) << name;
    EXPECT_GT(reported, 0.5);
  }
  std::filesystem::remove(script);
}

}  // namespace
}  // namespace paceline
