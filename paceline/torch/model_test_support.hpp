// What the tests of models share: forms of data, examples of them, a folder, a script made here.
#pragma once

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "paceline/core/error.hpp"
#include "paceline/torch/models.hpp"

namespace paceline {

inline Form images(int channels, int height, int width, int classes = 10) {
  return {Kind::images, {.channels = channels, .height = height, .width = width}, classes};
}
inline Form text_form(int length, int characters) { return {Kind::text, {.width = length}, characters}; }

inline torch::Tensor random_examples(const Form& form, std::int64_t count) {
  const Shape& shape = form.shape;
  if (form.kind == Kind::text) return torch::randint(form.classes, {count, shape.width}, torch::kLong);
  return torch::rand({count, shape.channels, shape.height, shape.width});
}

inline Model seeded_model(const std::string& spec, const Form& form, const ModelOptions& options = {}) {
  torch::manual_seed(3);
  return make_model(parse_model(spec), form, options);
}

inline std::int64_t count_parameters(const Model& model) {
  std::int64_t sum = 0;
  for (const torch::Tensor& parameter : model.module->parameters()) sum += parameter.numel();
  return sum;
}

// A script of a hidden layer in a module of its own, a buffer that counts, and a frozen scale: images of 1x4x4
// to 3 classes.
inline torch::jit::Module small_script() {
  torch::manual_seed(11);
  torch::jit::Module hidden("Hidden");
  hidden.register_parameter("weight", torch::randn({8, 16}).mul(0.3).requires_grad_(), false);
  hidden.register_attribute("training", c10::BoolType::get(), true);
  hidden.define("def forward(self, x):\n  return torch.matmul(x, self.weight.t())\n");
  torch::jit::Module script("Script");
  script.register_module("hidden", hidden);
  script.register_parameter("weight", torch::randn({3, 8}).mul(0.3).requires_grad_(), false);
  script.register_parameter("scale", torch::full({3}, 2.0), false);
  script.register_buffer("calls", torch::zeros({1}));
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define(R"(
def forward(self, x):
  if self.training:
    self.calls += 1
  h = torch.relu(self.hidden.forward(x.flatten(1)))
  return torch.matmul(h, self.weight.t()) * self.scale
)");
  return script;
}

class ModelFolder : public testing::Test {
 protected:
  ModelFolder() { std::filesystem::create_directories(folder_); }
  ~ModelFolder() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  const std::string folder_ = testing::TempDir() + "paceline_models_" + std::to_string(getpid());
};

}  // namespace paceline
