#include "paceline/torch/model_files.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "paceline/core/error.hpp"
#include "paceline/torch/models.hpp"

namespace paceline {
namespace {

constexpr Shape kSmallImage = {.channels = 1, .height = 4, .width = 4};

// With buffers, one of them of integers.
torch::nn::Sequential with_buffers() {
  return torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(16, 8), torch::nn::BatchNorm1d(8),
                               torch::nn::Linear(8, 3));
}

// Leaves parameters, buffers and momenta that are not the initial ones.
void train_a_little(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer) {
  model->train();
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    model->forward(torch::rand({6, 1, 4, 4})).pow(2).sum().backward();
    optimizer.step();
  }
}

void expect_equal(const torch::nn::Sequential& one, const torch::nn::Sequential& other) {
  const auto same = [](const auto& a, const auto& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
  };
  same(one->parameters(), other->parameters());
  same(one->buffers(), other->buffers());
}

class ModelFiles : public testing::Test {
 protected:
  ModelFiles() { std::filesystem::create_directories(folder_); }
  ~ModelFiles() override { std::filesystem::remove_all(folder_); }

  Checkpoint saved(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer,
                   const std::vector<std::string>& generators = {}) {
    CheckpointFiles files(folder_, 1);
    files.save(7, {{"any", 1}}, TrainingArrays(model, optimizer, generators).arrays());
    return files.load(files.list().at(0));
  }

  const std::string folder_ = testing::TempDir() + "paceline_model_files_" + std::to_string(getpid());
};

TEST_F(ModelFiles, TorchLoadsWhatWasSaved) {
  torch::nn::Sequential model = with_buffers(), other = with_buffers();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  train_a_little(model, optimizer);
  save_model(folder_, *model, "a test");
  torch::load(other, folder_ + "/model.pt");
  expect_equal(model, other);
}

TEST_F(ModelFiles, SafetensorsHoldEveryParameterAndBufferUnderItsName) {
  torch::nn::Sequential model = with_buffers();
  save_model(folder_, *model, "a test");
  const SafetensorsFile file(folder_ + "/model.safetensors");
  EXPECT_EQ(file.metadata().at("description"), "a test");
  EXPECT_EQ(file.arrays().size(), 9u);  // weight and bias of three layers, three buffers
  for (const auto& item : model->named_parameters()) {
    const NamedArray* array = file.find(item.key());
    ASSERT_NE(array, nullptr) << item.key();
    EXPECT_EQ(array->dtype, "F32");
    EXPECT_EQ(array->shape, item.value().sizes().vec());
    EXPECT_EQ(std::memcmp(array->bytes.data(), item.value().data_ptr(), array->bytes.size()), 0) << item.key();
  }
  ASSERT_NE(file.find("2.num_batches_tracked"), nullptr);
  EXPECT_EQ(file.find("2.num_batches_tracked")->dtype, "I64");
}

TEST_F(ModelFiles, ACheckpointBringsModelAndOptimizerBack) {
  torch::nn::Sequential model = with_buffers(), other = with_buffers();
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
  torch::optim::SGD optimizer(model->parameters(), options), second(other->parameters(), options);
  train_a_little(model, optimizer);
  load_training(saved(*model, optimizer), *other, second);
  expect_equal(model, other);
  // The momenta too: the next steps are the same.
  torch::manual_seed(3);
  train_a_little(model, optimizer);
  torch::manual_seed(3);
  train_a_little(other, second);
  expect_equal(model, other);
}

TEST_F(ModelFiles, GeneratorsComeBackByRank) {
  torch::nn::Sequential model = with_buffers();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  const std::string state = generator_state();
  const torch::Tensor drawn = torch::rand({5});
  const auto generators = saved_generators(saved(*model, optimizer, {state, "another"}));
  ASSERT_EQ(generators.size(), 2u);
  EXPECT_EQ(generators[1], "another");
  set_generator_state(generators[0]);
  EXPECT_TRUE(torch::equal(torch::rand({5}), drawn));
}

TEST_F(ModelFiles, ACheckpointOfAnotherModelIsRefusedByName) {
  auto model = make_model(parse_model("mlp:8"), {Kind::images, kSmallImage, 3}).module;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  const Checkpoint checkpoint = saved(*model, optimizer);
  for (const std::string name : {"mlp:9", "mlp:8,8", "cnn"}) {
    auto other = make_model(parse_model(name), {Kind::images, kSmallImage, 3}).module;
    torch::optim::SGD second(other->parameters(), torch::optim::SGDOptions(0.1));
    try {
      load_training(checkpoint, *other, second);
      ADD_FAILURE() << name << " was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      EXPECT_NE(std::string(error.what()).find(checkpoint.path), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace paceline
