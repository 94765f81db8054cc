#include "paceline/torch/transformer.hpp"

#include <cmath>

#include "paceline/torch/model_test_support.hpp"

namespace paceline {
namespace {

constexpr TransformerOptions kSmall = {.layers = 2, .width = 12, .heads = 3, .characters = 7, .length = 6};

Transformer make(TransformerOptions options = kSmall) {
  torch::manual_seed(5);
  Transformer net(options);
  net->to(torch::kDouble);
  return net;
}

// Attention as Vaswani et al. write it, one head, one query at a time.
torch::Tensor naive_attention(const torch::Tensor& qkv, std::int64_t heads) {
  const std::int64_t length = qkv.size(0);
  const std::int64_t width = qkv.size(1) / 3;
  const std::int64_t part = width / heads;
  torch::Tensor out = torch::zeros({length, width}, qkv.options());
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto of = [&](std::int64_t which) { return qkv.narrow(1, which * width + head * part, part); };
    for (std::int64_t t = 0; t < length; ++t) {
      const torch::Tensor scores = of(1).narrow(0, 0, t + 1).matmul(of(0)[t]) / std::sqrt(static_cast<double>(part));
      out[t].narrow(0, head * part, part).copy_(scores.softmax(0).matmul(of(2).narrow(0, 0, t + 1)));
    }
  }
  return out;
}

torch::Tensor naive_forward(Transformer& net, const torch::Tensor& window, const TransformerOptions& options) {
  const auto parameters = net->named_parameters();
  const auto linear = [&](const std::string& name, const torch::Tensor& x) {
    return x.matmul(parameters[name + ".weight"].t()) + parameters[name + ".bias"];
  };
  const auto norm = [&](const std::string& name, const torch::Tensor& x) {
    return torch::layer_norm(x, {options.width}, parameters[name + ".weight"], parameters[name + ".bias"]);
  };
  torch::Tensor x =
      parameters["wte.weight"].index_select(0, window) + parameters["wpe.weight"].narrow(0, 0, window.size(0));
  for (int i = 0; i < options.layers; ++i) {
    const std::string block = "h." + std::to_string(i) + ".";
    const torch::Tensor qkv = linear(block + "attn.c_attn", norm(block + "ln_1", x));
    x = x + linear(block + "attn.c_proj", naive_attention(qkv, options.heads));
    x = x + linear(block + "mlp.c_proj", torch::gelu(linear(block + "mlp.c_fc", norm(block + "ln_2", x))));
  }
  return norm("ln_f", x).matmul(parameters["lm_head.weight"].t());
}

TEST(Transformer, ComputesWhatTheFormulasSay) {
  const torch::NoGradGuard no_grad;
  Transformer net = make();
  for (const std::int64_t length : {1, 5, 6}) {
    const torch::Tensor windows = torch::randint(7, {3, length}, torch::kLong);
    const torch::Tensor out = net->forward(windows);
    for (std::int64_t i = 0; i < 3; ++i)
      EXPECT_TRUE(torch::allclose(out[i], naive_forward(net, windows[i], kSmall), 1e-10, 1e-12)) << length;
  }
}

TEST(Transformer, DoesNotSeeWhatComesLater) {
  const torch::NoGradGuard no_grad;
  Transformer net = make();
  const torch::Tensor window = torch::tensor({{1, 2, 3, 4, 5, 6}});
  const torch::Tensor other = torch::tensor({{1, 2, 3, 0, 0, 0}});
  const torch::Tensor a = net->forward(window);
  const torch::Tensor b = net->forward(other);
  EXPECT_TRUE(torch::equal(a.narrow(1, 0, 3), b.narrow(1, 0, 3)));
  EXPECT_FALSE(torch::allclose(a.narrow(1, 3, 3), b.narrow(1, 3, 3)));
}

TEST(Transformer, BeginsAsGpt2Does) {
  torch::manual_seed(1);
  const Transformer net(TransformerOptions{.layers = 8, .width = 64, .heads = 4, .characters = 64, .length = 32});
  const auto parameters = net->named_parameters();
  const auto deviation = [&](const std::string& name) { return parameters[name].std().item<double>(); };
  EXPECT_NEAR(deviation("wte.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("h.3.attn.c_attn.weight"), 0.02, 0.001);
  EXPECT_NEAR(deviation("h.3.attn.c_proj.weight"), 0.02 / 4, 0.0003);
  EXPECT_NEAR(deviation("h.7.mlp.c_proj.weight"), 0.02 / 4, 0.0003);
  EXPECT_EQ(parameters["h.0.mlp.c_fc.bias"].abs().max().item<double>(), 0);
  EXPECT_EQ(parameters["h.0.ln_1.weight"].min().item<double>(), 1);
}

TEST(Transformer, DropsOutInTrainingAlone) {
  TransformerOptions options = kSmall;
  options.dropout = 0.5;
  Transformer net = make(options);
  const torch::Tensor window = torch::tensor({{1, 2, 3}});
  EXPECT_FALSE(torch::allclose(net->forward(window), net->forward(window)));
  net->eval();
  EXPECT_TRUE(torch::equal(net->forward(window), net->forward(window)));
}

TEST(Transformer, RefusesMoreThanItsWindow) {
  Transformer net = make();
  try {
    net->forward(torch::zeros({1, 7}, torch::kLong));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the transformer takes at most 6 characters at once, not 7");
  }
}

}  // namespace
}  // namespace paceline
