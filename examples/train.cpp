// Trains a small network on two spirals, on as many workers as there are:
//
//   paceline run -n 2 example_train
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/shard.hpp"

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(2, 64))),
        second(register_module("second", torch::nn::Linear(64, 64))),
        last(register_module("last", torch::nn::Linear(64, 2))) {}
  torch::Tensor forward(torch::Tensor x) { return last(torch::relu(second(torch::relu(first(x))))); }
  torch::nn::Linear first, second, last;
};
TORCH_MODULE(Net);

// Two spirals wound into each other: no straight line tells them apart.
struct Spirals : torch::data::datasets::Dataset<Spirals> {
  torch::data::Example<> get(size_t index) override {
    const int arm = static_cast<int>(index % 2);
    const double turn = 0.25 + 3 * std::sqrt(static_cast<double>(index) / kExamples);
    const double angle = turn * 2.5 + arm * M_PI;
    return {torch::tensor({turn * std::cos(angle), turn * std::sin(angle)}, torch::kFloat), torch::tensor(arm)};
  }
  torch::optional<size_t> size() const override { return kExamples; }
  static constexpr size_t kExamples = 2000;
};

int main(int argc, char** argv) try {
  auto job = paceline::join(argc, argv);  // 1. meet the other workers
  Net net;
  torch::optim::Adam adam(net->parameters(), 0.005);
  paceline::DataParallel parallel(job, *net, adam, "where=allreduce");  // 2. wrap
  auto batches = paceline::shard(Spirals().map(torch::data::transforms::Stack<>()), job, {.batch = 50});
  double correct = 0, seen = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    correct = seen = 0;
    for (auto& batch : batches.epoch(epoch)) {  // 3. each worker reads its own share
      adam.zero_grad();
      const torch::Tensor scores = net(batch.data);
      (torch::nn::functional::cross_entropy(scores, batch.target) * batches.weight()).backward();
      parallel.step();  // 4. in place of adam.step()
      correct += scores.argmax(1).eq(batch.target).sum().item<double>();
      seen += static_cast<double>(batch.target.size(0));
    }
  }
  std::printf("worker %d of %d: %.1f%% of its last %.0f examples right after %lld steps\n", job.rank(), job.size(),
              100 * correct / seen, seen, static_cast<long long>(parallel.steps()));
  return correct / seen > 0.9 ? 0 : 1;
} catch (const paceline::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
