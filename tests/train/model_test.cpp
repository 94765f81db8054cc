// The trained model, as a program that links LibTorch gets it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "paceline/data/batch.hpp"
#include "paceline/data/open.hpp"
#include "paceline/torch/models.hpp"
#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

double accuracy_on(torch::nn::Sequential& model, const Dataset& data, const Normalisation& normalisation) {
  std::vector<std::uint32_t> all(data.size());
  std::iota(all.begin(), all.end(), 0U);
  Batch batch;
  fill(batch, data, normalisation, all);
  const auto n = static_cast<std::int64_t>(batch.size());
  const Shape shape = data.shape();
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits =
      model->forward(torch::from_blob(batch.pixels.data(), {n, shape.channels, shape.height, shape.width}));
  const torch::Tensor labels = torch::from_blob(batch.labels.data(), {n}, torch::kLong);
  return static_cast<double>(logits.argmax(1).eq(labels).sum().item<std::int64_t>()) / static_cast<double>(n);
}

TEST(TrainModel, LoadsElsewhereAndIsAsGoodAsReported) {
  for (const std::string name : {"softmax", "mlp:16"}) {
    const TrainRun run;
    const Ended ended = run.train({"--model", name, "--data", "digits", "--workers", "2", "--epochs", "4"});
    const double reported = json_lines(ended.output).back().at("test_accuracy");
    const DataSplit digits = open_data("digits");
    torch::nn::Sequential model = make_model(parse_model(name), digits.train.shape(), digits.train.classes());
    torch::load(model, run.path("model.pt"));
    model->eval();
    EXPECT_DOUBLE_EQ(accuracy_on(model, digits.test, digits.normalisation), reported) << name;
    EXPECT_GT(reported, 0.5);
  }
}

}  // namespace
}  // namespace paceline
