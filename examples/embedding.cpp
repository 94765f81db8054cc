// Learns which of two million visitors like which of a million things, from a stream of looks, on as many workers as
// there are. Visitors and things are rows of a table that two servers keep; a worker holds those of its batch.
//
//   paceline run -n 2 example_embedding
#include <torch/torch.h>

#include <cstdio>

#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/table_embedding.hpp"

constexpr std::int64_t kVisitors = 2'000'000;
constexpr std::int64_t kThings = 1'000'000;
constexpr std::int64_t kBatch = 256;
constexpr int kSteps = 300;
constexpr int kLast = 50;  // steps in which it is counted how often the model is right

// Few of them come often, as everywhere: the square of a uniform number prefers the small ones.
torch::Tensor draw(std::int64_t kinds) {
  return (torch::rand({kBatch}).pow(8) * static_cast<double>(kinds)).to(torch::kLong);
}

// Visitors of an even number like things of an even number, the others like everything: three looks of four.
struct Looks {
  torch::Tensor keys;   // a visitor and a thing; things are counted on after the visitors
  torch::Tensor liked;  // 1 or 0
};
Looks next_looks() {
  const torch::Tensor visitors = draw(kVisitors), things = draw(kThings);
  return {torch::stack({visitors, things + kVisitors}, 1),
          (visitors % 2).logical_or((things % 2).eq(0)).to(torch::kFloat)};
}

int main(int argc, char** argv) try {
  auto job = paceline::join(argc, argv);
  torch::manual_seed(job.rank());  // each worker has its own part of the stream
  torch::nn::Sequential net(torch::nn::Linear(16, 32), torch::nn::ReLU(), torch::nn::Linear(32, 1));
  torch::optim::Adagrad adagrad(net->parameters(), 0.05);
  paceline::DataParallel parallel(job, *net, adagrad, "when=async where=server:2");
  paceline::TableEmbedding rows(
      parallel.session(), {.name = "visitors and things", .width = 8, .rule = "adagrad:0.1", .init = "normal:0.1"});
  Looks looks = next_looks();
  double right = 0;
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor scores = net->forward(rows.forward(looks.keys).flatten(1)).flatten();
    const torch::Tensor loss = torch::binary_cross_entropy_with_logits(scores, looks.liked);
    const torch::Tensor as_liked = scores.gt(0).eq(looks.liked.gt(0.5)).to(torch::kFloat).mean();
    if (step >= kSteps - kLast) right += as_liked.item<double>() / kLast;
    looks = next_looks();
    rows.prefetch(looks.keys);  // travels while backward computes
    adagrad.zero_grad();
    loss.backward();
    parallel.step();
  }
  rows.flush();
  std::printf("worker %d of %d: %.1f%% of its last looks foretold; it has read %llu rows, %llu of them ahead\n",
              job.rank(), job.size(), 100 * right, static_cast<unsigned long long>(rows.counters().rows_read),
              static_cast<unsigned long long>(rows.counters().rows_prefetched));
  return right > 0.78 ? 0 : 1;
} catch (const paceline::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
