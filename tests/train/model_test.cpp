// The trained model, as a program that links LibTorch gets it.
#include <gtest/gtest.h>
#include <torch/torch.h>

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

TEST(TrainModel, LoadsElsewhereAndIsAsGoodAsReported) {
  for (const std::string name : {"softmax", "mlp:16"}) {
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
}

}  // namespace
}  // namespace paceline
