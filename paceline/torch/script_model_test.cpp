#include "paceline/torch/script_model.hpp"

#include <fstream>
#include <set>

#include "paceline/torch/model_files.hpp"
#include "paceline/torch/model_test_support.hpp"
#include "paceline/torch/parallel_test_support.hpp"

namespace paceline {
namespace {

const Form kImageForm = images(1, 4, 4, 3);

class ScriptModels : public ModelFolder {
 protected:
  std::string saved(const torch::jit::Module& script, const std::string& name = "script.pt") {
    script.save(path(name));
    return path(name);
  }

  // What is said of a script whose forward is this, with one parameter.
  std::string complaint_of(const std::string& forward, const Form& form = kImageForm) {
    torch::jit::Module script("Script");
    script.register_parameter("weight", torch::zeros({3, 16}, torch::requires_grad()), false);
    script.define(forward);
    return complaint(saved(script), form);
  }
  std::string complaint(const std::string& file, const Form& form = kImageForm) {
    const std::string all = sentence_of([&] { make_model(parse_model("script:" + file), form); });
    const std::string start = "model script:" + file + ": ";
    EXPECT_TRUE(all.empty() || all.starts_with(start)) << all;
    EXPECT_EQ(all.find('\n'), std::string::npos) << all;
    return all.empty() ? all : all.substr(start.size());
  }
};

TEST_F(ScriptModels, HaveTheScriptsOwnNamesAndTensors) {
  const torch::jit::Module script = small_script();
  const Model model = make_model(parse_model("script:" + saved(script)), kImageForm);
  std::set<std::string> names;
  for (const auto& item : model.module->named_parameters()) names.insert(item.key());
  EXPECT_EQ(names, (std::set<std::string>{"hidden.weight", "scale", "weight"}));
  EXPECT_TRUE(model.module->named_buffers().contains("calls"));
  EXPECT_FALSE(model.module->named_parameters()["scale"].requires_grad());
  EXPECT_TRUE(model.module->named_parameters()["hidden.weight"].requires_grad());
  const torch::Tensor input = random_examples(kImageForm, 5);
  torch::jit::Module other = script;
  EXPECT_TRUE(torch::equal(model.forward(input), other.forward({input}).toTensor()));
}

TEST_F(ScriptModels, RegisterASharedTensorOnce) {
  torch::jit::Module script("Script");
  const torch::Tensor shared = torch::ones({3, 16}, torch::requires_grad());
  script.register_parameter("one", shared, false);
  script.register_parameter("two", shared, false);
  script.define("def forward(self, x):\n  return torch.matmul(x.flatten(1), (self.one + self.two).t())\n");
  const Model model = make_model(parse_model("script:" + saved(script)), kImageForm);
  ASSERT_EQ(model.module->parameters().size(), 1U);
  model.forward(torch::ones({1, 1, 4, 4})).sum().backward();
  EXPECT_EQ(model.module->parameters()[0].grad().max().item<float>(), 2);
}

TEST_F(ScriptModels, ArePutIntoTrainingAndEvaluation) {
  const Model model = make_model(parse_model("script:" + saved(small_script())), kImageForm);
  const torch::Tensor calls = model.module->named_buffers()["calls"];
  model.forward(random_examples(kImageForm, 1));
  EXPECT_EQ(calls.item<float>(), 1);
  model.module->eval();
  model.forward(random_examples(kImageForm, 1));
  EXPECT_EQ(calls.item<float>(), 1);
  model.module->train();
  model.forward(random_examples(kImageForm, 1));
  EXPECT_EQ(calls.item<float>(), 2);
}

TEST_F(ScriptModels, TrainOnTwoRanksAndAreSavedWithWhatTheyLearned) {
  const std::string file = saved(small_script());
  const torch::Tensor input = random_examples(kImageForm, 6);
  std::vector<torch::Tensor> outputs(2);
  std::vector<float> first(2), last(2);
  run_shm_ranks(2, [&](Endpoint& endpoint) {
    const Model model = make_model(parse_model("script:" + file), kImageForm);
    const auto rank = static_cast<std::size_t>(endpoint.rank());
    const torch::Tensor own = input.narrow(0, 3 * endpoint.rank(), 3);
    torch::optim::SGD sgd(model.module->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    DataParallel parallel(endpoint, Group::world(2), *model.module, sgd, "", {.check_every = 1});
    for (int step = 0; step < 10; ++step) {
      sgd.zero_grad();
      const torch::Tensor loss = (model.forward(own) - 1).square().mean();
      loss.backward();
      (step == 0 ? first : last)[rank] = loss.item<float>();
      parallel.step();
    }
    EXPECT_TRUE(torch::equal(model.module->named_parameters()["scale"], torch::full({3}, 2.0)));  // frozen
    model.module->eval();
    outputs[rank] = model.forward(input).detach();
    if (rank != 0) return;
    save_model(std::filesystem::path(file).parent_path(), *model.module, "a script");
    ASSERT_TRUE(is_script(model));
    save_script(model, path("trained.pt"));
  });
  EXPECT_LT(last[0], 0.5F * first[0]);
  EXPECT_LT(last[1], 0.5F * first[1]);
  EXPECT_TRUE(torch::equal(outputs[0], outputs[1]));

  const Model loaded = make_model(parse_model("script:" + file), kImageForm);
  torch::load(loaded.module, path("model.pt"));
  loaded.module->eval();
  EXPECT_TRUE(torch::equal(loaded.forward(input), outputs[0]));
  torch::jit::Module trained = torch::jit::load(path("trained.pt"));
  EXPECT_TRUE(torch::equal(trained.forward({input}).toTensor(), outputs[0]));
}

TEST_F(ScriptModels, SayWhatIsWrongWithAFile) {
  EXPECT_EQ(complaint(path("absent.pt")), "there is no such file");
  std::ofstream(path("text.pt")) << "not a zip";
  EXPECT_TRUE(contains(complaint(path("text.pt")), "this is not TorchScript"));
  torch::save(make_net(), path("weights.pt"));
  EXPECT_TRUE(contains(complaint(path("weights.pt")), "there is no forward in it"));
  torch::jit::Module empty("Empty");
  empty.define("def forward(self, x):\n  return x.flatten(1)\n");
  EXPECT_TRUE(contains(complaint(saved(empty)), "it has no parameters to train"));
  empty.register_parameter("weight", torch::zeros({1}), false);
  EXPECT_TRUE(contains(complaint(saved(empty)), "none of its parameters requires gradients"));
}

TEST_F(ScriptModels, SayWhatIsWrongWithTheirForward) {
  EXPECT_EQ(complaint_of("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight.t())\n"), "");
  EXPECT_EQ(complaint_of("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight)\n"),
            "forward fails on an example of [1, 1, 4, 4]: mat1 and mat2 shapes cannot be multiplied (1x16 and 3x16)");
  EXPECT_EQ(
      complaint_of("def forward(self, x):\n  return torch.matmul(x.flatten(1), self.weight.t())\n", images(1, 4, 4, 5)),
      "forward makes [1, 3] of one example, where these data need [1, 5]");
  EXPECT_EQ(complaint_of("def forward(self, x):\n  return (x, x)\n"),
            "forward fails on an example of [1, 1, 4, 4]: the script answers with a Tuple, not with a tensor");
}

TEST_F(ScriptModels, TakeTextAsWell) {
  torch::jit::Module script("Script");
  script.register_parameter("table", torch::randn({5, 5}, torch::requires_grad()), false);
  script.define("def forward(self, x):\n  return torch.embedding(self.table, x)\n");
  const Model model = make_model(parse_model("script:" + saved(script)), text_form(6, 5));
  EXPECT_EQ(model.forward(torch::zeros({2, 6}, torch::kLong)).sizes(), (std::vector<std::int64_t>{2, 6, 5}));
}

}  // namespace
}  // namespace paceline
