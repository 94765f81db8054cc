#include "paceline/torch/models.hpp"

#include "paceline/torch/model_test_support.hpp"

namespace paceline {
namespace {

constexpr Shape kMnist = {.channels = 1, .height = 28, .width = 28};

std::int64_t parameters_of(const std::string& model, const Form& form = {Kind::images, kMnist, 10}) {
  return count_parameters(make_model(parse_model(model), form));
}

std::string complaint(const std::string& model, const Form& form, const ModelOptions& options = {}) {
  try {
    make_model(parse_model(model), form, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(Models, HaveTheParametersTheyAreKnownFor) {
  EXPECT_EQ(parameters_of("softmax"), 7'850);
  EXPECT_EQ(parameters_of("mlp:2048x3"), 10'020'874);
  EXPECT_EQ(parameters_of("cnn"), 824'458);
  EXPECT_EQ(parameters_of("lenet"), 61'706);  // LeCun's with 120 fully connected
  EXPECT_EQ(parameters_of("softmax", images(3, 8, 8, 4)), 3 * 64 * 4 + 4);
  EXPECT_EQ(parameters_of("resnet18", images(3, 32, 32)), 11'173'962);
  EXPECT_EQ(parameters_of("resnet18", images(3, 224, 224, 1000)), 11'689'512);
  EXPECT_EQ(parameters_of("vgg16", images(3, 32, 32)), 14'728'266);
  EXPECT_EQ(parameters_of("transformer", text_form(128, 65)), 3'225'600);
  EXPECT_EQ(parameters_of("lstm", text_form(128, 65)), 1'086'017);
}

TEST(Models, VggOfLargeImagesHasTheParametersItIsKnownForSlow) {
  EXPECT_EQ(parameters_of("vgg16", images(3, 224, 224, 1000)), 138'365'992);
}

// One form that a family takes; a script needs a file and has tests of its own.
Form form_for(const ModelSpec& spec) {
  if (takes(spec, Kind::keyed)) return {.kind = Kind::keyed, .shape = {.width = 13}, .classes = 2, .keys = 26};
  return takes(spec, Kind::text) ? text_form(9, 7) : images(1, 32, 32, 7);
}

TEST(Models, AreThereForEveryFamily) {
  for (const std::string& family : model_families()) {
    if (family == "script") continue;
    const Form form = form_for(parse_model(family));
    EXPECT_GT(parameters_of(family, form), 0) << family;
  }
}

TEST(Models, LearnFromEveryParameterAlsoInBatchesOfOne) {
  for (const std::string name :
       {"softmax", "mlp:8", "lenet", "cnn", "resnet18", "vgg16", "transformer:2,16,2", "lstm:2,8"}) {
    const Form form = form_for(parse_model(name));
    const Model model = seeded_model(name, form);
    for (const std::int64_t batch : {1, 3}) {
      model.module->zero_grad(true);
      model.forward(random_examples(form, batch)).square().sum().backward();
      for (const auto& item : model.module->named_parameters())
        EXPECT_TRUE(item.value().grad().defined()) << name << ": " << item.key();
    }
  }
}

TEST(Models, GiveOneNumberPerClass) {
  const Shape shapes[] = {
      kMnist, {.channels = 3, .height = 32, .width = 32}, {.channels = 1, .height = 12, .width = 17}};
  for (const Shape& shape : shapes) {
    for (const std::string name : {"softmax", "mlp:16", "mlp:8,4", "lenet", "cnn", "resnet18"}) {
      const Model model = make_model(parse_model(name), {Kind::images, shape, 7});
      const torch::Tensor out = model.forward(torch::zeros({5, shape.channels, shape.height, shape.width}));
      EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{5, 7})) << name << " of " << to_string(shape);
    }
  }
}

TEST(Models, OfDeepNetsTakeImagesOfAnySides) {
  const torch::NoGradGuard no_grad;
  for (const Form& form :
       {images(1, 1, 1), images(3, 8, 8), images(2, 33, 47), images(1, 64, 65), images(3, 71, 100)}) {
    for (const std::string name : {"resnet18", "vgg16"}) {
      if (name == "vgg16" && (form.shape.height < 32 || form.shape.height >= 64)) continue;  // 138M: seen elsewhere
      const Model model = make_model(parse_model(name), form);
      for (const std::int64_t batch : {1, 2}) {  // in training: the harder case of batch norm
        const torch::Tensor out = model.forward(random_examples(form, batch));
        EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{batch, 10})) << name << " of " << to_string(form);
        EXPECT_TRUE(out.isfinite().all().item<bool>()) << name << " of " << to_string(form);
      }
    }
  }
}

TEST(Models, OfTextGiveOneNumberPerCharacterAtEveryPlace) {
  for (const std::string name : {"transformer:1,12,3", "lstm:1,5"}) {
    for (const int length : {1, 7}) {
      const Form form = text_form(length, 11);
      const torch::Tensor out = make_model(parse_model(name), form).forward(random_examples(form, 3));
      EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{3, length, 11})) << name;
    }
  }
}

// Pretrained weights come under these names.
TEST(Models, OfDeepNetsHaveTorchvisionsNames) {
  const auto names = seeded_model("resnet18", images(3, 32, 32)).module->named_parameters();
  for (const std::string name : {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
                                 "layer2.0.downsample.1.weight", "layer4.1.bn2.weight", "fc.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(names.size(), 62U);
  const auto vgg = seeded_model("vgg16", images(3, 32, 32)).module->named_parameters();
  for (const std::string name : {"features.0.bias", "features.1.weight", "features.40.weight", "features.41.bias"})
    EXPECT_TRUE(vgg.contains(name)) << name;
}

TEST(Models, AreTheSameForTheSameSeed) {
  for (const std::string name : {"mlp:16", "resnet18", "transformer:1,8,2"}) {
    const Form form = form_for(parse_model(name));
    const auto one = seeded_model(name, form).module;
    const auto other = seeded_model(name, form).module;
    for (std::size_t i = 0; i < one->parameters().size(); ++i)
      EXPECT_TRUE(torch::equal(one->parameters()[i], other->parameters()[i]));
  }
}

TEST(Models, TooSmallImagesAreRefused) {
  EXPECT_EQ(complaint("cnn", images(1, 4, 4)), "");
  EXPECT_EQ(complaint("cnn", images(1, 3, 28)), "cnn needs images of at least 4x4; these are 3x28");
  EXPECT_EQ(complaint("lenet", images(1, 12, 12)), "");
  EXPECT_EQ(complaint("lenet", images(1, 28, 11)), "lenet needs images of at least 12x12; these are 28x11");
  EXPECT_EQ(complaint("vgg16", images(1, 28, 28)), "vgg16 needs images of at least 32x32; these are 28x28");
  EXPECT_EQ(complaint("softmax", images(1, 1, 1)), "");
}

TEST(Models, DataOfAnotherKindAreRefused) {
  EXPECT_EQ(complaint("cnn", text_form(8, 5)),
            "cnn does not take text; what does is transformer[:LAYERS,WIDTH,HEADS], lstm[:LAYERS,WIDTH], script:FILE "
            "(TorchScript)");
  EXPECT_NE(complaint("lstm", images(1, 28, 28)), "");
  EXPECT_NE(complaint("resnet18", {Kind::table, {.width = 4}, 2}), "");
}

TEST(Models, OptionsThatSpeakOfNothingAreRefused) {
  EXPECT_EQ(complaint("mlp", images(1, 4, 4), {.ghost_batch = 4}),
            "mlp:256,128 has no batch norm that could see ghost batches");
  EXPECT_NE(complaint("transformer", text_form(4, 4), {.ghost_batch = 4}), "");
  EXPECT_NE(complaint("resnet18", images(1, 8, 8), {.ghost_batch = -1}), "");
  EXPECT_EQ(complaint("cnn", images(1, 4, 4), {.checkpoint_activations = true}),
            "cnn has no segments that could be computed again");
}

TEST(Models, WordsThatNoLayersFollowFromAreRefused) {
  const auto refusal = [](const std::string& text) { return complaint(text, text_form(4, 4)); };
  EXPECT_NE(refusal("transformer:2,10,4").find("a width of 10 cannot be divided among 4 heads"), std::string::npos);
  EXPECT_NE(refusal("transformer:2,10").find("3 numbers are needed, not 2"), std::string::npos);
  for (const std::string bad :
       {"transformer:", "transformer:0,8,2", "transformer:2,8,2,2", "transformer:2,,2", "transformer:2,8,",
        "lstm:", "lstm:2", "lstm:x,8", "lstm:1000,8", "script", "script:", "resnet18:2", "vgg16:D"})
    EXPECT_NE(refusal(bad), "") << bad;
  EXPECT_EQ(parse_model("transformer").text(), "transformer:4,256,4");
  EXPECT_EQ(parse_model("lstm:3,64").text(), "lstm:3,64");
  EXPECT_EQ(parse_model("script:a:b.pt").text(), "script:a:b.pt");
}

}  // namespace
}  // namespace paceline
