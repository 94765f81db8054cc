#include "paceline/torch/pretrained.hpp"

#include <fstream>

#include "paceline/record/safetensors.hpp"
#include "paceline/torch/model_files.hpp"
#include "paceline/torch/model_test_support.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

class Pretrained : public ModelFolder {
 protected:
  // Both of the model's files.
  void save(const Model& model) {
    save_model(std::filesystem::path(path("x")).parent_path(), *model.module, "a model");
  }
  std::string complaint(const Model& model, const std::string& file, bool allow_new_head = false) {
    const std::string all = sentence_of([&] { load_weights(model, file, allow_new_head); });
    EXPECT_TRUE(contains(all, file)) << all;
    return all;
  }
};

Model other_model(const std::string& spec, const Form& form) {
  torch::manual_seed(77);
  return make_model(parse_model(spec), form);
}

void disturb_statistics(const Model& model, const Form& form) {
  const torch::NoGradGuard no_grad;
  model.forward(random_examples(form, 4));
}

TEST_F(Pretrained, WeightsComeBackFromBothFiles) {
  for (const std::string spec : {"mlp:8", "resnet18", "transformer:1,8,2", "lstm:1,4"}) {
    const Form form = takes(parse_model(spec), Kind::text) ? text_form(5, 6) : images(1, 8, 8, 4);
    const Model trained = seeded_model(spec, form);
    disturb_statistics(trained, form);
    save(trained);
    for (const std::string file : {"model.pt", "model.safetensors"}) {
      const Model fresh = other_model(spec, form);
      std::vector<const void*> places;
      for (const torch::Tensor& parameter : fresh.module->parameters()) places.push_back(parameter.data_ptr());
      EXPECT_TRUE(load_weights(fresh, path(file)).empty());
      EXPECT_TRUE(same_bits(fresh.module->parameters(), trained.module->parameters())) << spec << " " << file;
      EXPECT_TRUE(same_bits(fresh.module->buffers(), trained.module->buffers())) << spec << " " << file;
      for (std::size_t i = 0; i < places.size(); ++i)  // in place: an arena or an optimizer may know them
        EXPECT_EQ(fresh.module->parameters()[i].data_ptr(), places[i]);
    }
  }
}

TEST_F(Pretrained, AHeadOfAnotherSizeIsLeftAsItWasIfThatIsAllowed) {
  const Form old_form = images(3, 8, 8, 9), form = images(3, 8, 8, 4);
  const Model trained = seeded_model("resnet18", old_form);
  save(trained);
  const Model fresh = other_model("resnet18", form);
  const torch::Tensor head = fresh.module->named_parameters()["fc.weight"].detach().clone();
  EXPECT_TRUE(
      contains(complaint(fresh, path("model.safetensors")), "'fc.weight' is [9, 512] in the file and [4, 512] in"));
  EXPECT_FALSE(torch::equal(fresh.module->parameters()[0], trained.module->parameters()[0]));  // nothing was changed
  EXPECT_EQ(load_weights(fresh, path("model.safetensors"), true), (std::vector<std::string>{"fc.weight", "fc.bias"}));
  EXPECT_TRUE(torch::equal(fresh.module->named_parameters()["fc.weight"], head));
  EXPECT_TRUE(torch::equal(fresh.module->parameters()[0], trained.module->parameters()[0]));
  EXPECT_TRUE(load_weights(other_model("resnet18", old_form), path("model.pt"), true).empty());
}

TEST_F(Pretrained, AnotherModelIsRefusedByTheFirstNameThatDoesNotFit) {
  const Form form = images(1, 4, 4, 3);
  save(seeded_model("mlp:8,8", form));
  EXPECT_TRUE(contains(complaint(seeded_model("mlp:8", form), path("model.pt"), true), "has a '5.bias', which the"));
  EXPECT_TRUE(contains(complaint(seeded_model("mlp:8,8,8", form), path("model.pt")), "'5.weight'"));
  EXPECT_TRUE(contains(complaint(seeded_model("mlp:9,8", form), path("model.safetensors"), true),
                       "'1.weight' is [8, 16] in the file and [9, 16] in the model"));
  EXPECT_TRUE(contains(complaint(seeded_model("resnet18", form), path("model.pt")), "has no 'conv1.weight'"));
  save(seeded_model("mlp:8,8,3", form));  // more layers than the model, all else alike
  EXPECT_TRUE(
      contains(complaint(seeded_model("mlp:8,8", form), path("model.safetensors")), "has a '7.bias', which the model"));
}

TEST_F(Pretrained, OtherFloatingTypesAreConverted) {
  const Form form = images(1, 2, 2, 3);
  const Model model = seeded_model("softmax", form);
  const torch::Tensor weight = torch::arange(12, torch::kHalf).view({3, 4}), bias = torch::ones({3}, torch::kDouble);
  const auto array = [](const std::string& name, const std::string& type, const torch::Tensor& tensor) {
    return NamedArray{
        name, type, tensor.sizes().vec(), {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}};
  };
  const std::vector<NamedArray> arrays = {array("1.weight", "F16", weight), array("1.bias", "F64", bias)};
  write_safetensors(path("half.safetensors"), arrays, {});
  EXPECT_TRUE(load_weights(model, path("half.safetensors")).empty());
  EXPECT_TRUE(torch::equal(model.module->named_parameters()["1.weight"], weight.to(torch::kFloat)));
  EXPECT_TRUE(torch::equal(model.module->named_parameters()["1.bias"], torch::ones({3})));
}

TEST_F(Pretrained, FilesThatHoldNoWeightsAreRefused) {
  const Model model = seeded_model("softmax", images(1, 2, 2, 3));
  EXPECT_TRUE(contains(complaint(model, path("absent.pt")), "there is no such file"));
  std::ofstream(path("bad.pt")) << "text";
  EXPECT_TRUE(contains(complaint(model, path("bad.pt")), "was not written by torch::save"));
  std::ofstream(path("weights.npz")) << "text";
  EXPECT_TRUE(contains(complaint(model, path("weights.npz")), "weights are read from .safetensors and .pt"));
}

}  // namespace
}  // namespace paceline
