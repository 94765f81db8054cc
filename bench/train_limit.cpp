// The plain LibTorch training loop, as somebody writes it who has one process: a stock optimizer and nothing that
// talks. One of it is what a step may cost at least; two side by side, whose samples/s are added, are the limit of two
// workers.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>

#include "paceline/core/error.hpp"
#include "paceline/data/loader.hpp"
#include "paceline/data/open.hpp"
#include "paceline/torch/models.hpp"
#include "paceline/torch/task.hpp"

namespace {

using paceline::Batch;
using paceline::Code;
using paceline::DataSplit;
using paceline::Error;
using paceline::Loader;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 5;  // steps that are not timed: memory is taken, caches fill

struct Options {
  std::string model = "mlp:2048x3";
  std::string data = "synthetic";
  int batch = 64;
  int steps = 200;
  double lr = 0.01;
  std::uint64_t seed = 1;
  bool gate = false;
};

// Exits with a sentence on nonsense, and after --help.
Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("One contestant of script/bench train: the plain LibTorch loop, one JSON line at its end");
  app.add_option("--model", options.model, "What to train: " + paceline::model_help());
  app.add_option("--data", options.data, "On what: " + paceline::data_help());
  app.add_option("--batch", options.batch, "Examples per step")->check(CLI::Range(1, 1 << 20));
  app.add_option("--steps", options.steps, "Steps, of which the first five are not timed")
      ->check(CLI::Range(kWarmUp + 1, 1 << 30));
  app.add_option("--lr", options.lr, "Learning rate");
  app.add_option("--seed", options.seed, "Of the parameters and of the order of the examples");
  app.add_flag("--gate", options.gate, "Say 'ready' when loaded and start after a line on stdin");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

// One epoch after the other, without an end. Never an empty batch, because there is one worker.
class Batches {
 public:
  Batches(const DataSplit& data, const Options& options)
      : loader_(data.train, data.normalisation,
                {.samples = data.train.size(), .batch = options.batch, .workers = 1, .seed = options.seed}, 0) {}

  const Batch& next() {
    const Batch* batch = loader_.next();
    while (batch == nullptr) {
      loader_.begin_epoch(epoch_++);
      batch = loader_.next();
    }
    return *batch;
  }

 private:
  Loader loader_;
  int epoch_ = 0;
};

struct Result {
  std::int64_t samples = 0;  // timed ones
  double seconds = 0;
  double loss = 0;  // sums over all steps
  std::int64_t correct = 0;
};

Result train(const paceline::Model& net, const DataSplit& data, const Options& options) {
  torch::optim::SGD optimizer(net.module->parameters(), options.lr);
  Batches batches(data, options);
  Result result;
  Clock::time_point start = Clock::now();
  for (int step = 0; step < options.steps; ++step) {
    if (step == kWarmUp) start = Clock::now();
    const Batch& batch = batches.next();
    const paceline::Form& form = data.train.form();
    const torch::Tensor wanted = paceline::answers_of(batch, form);
    optimizer.zero_grad();
    const torch::Tensor scores = net.forward(paceline::inputs_of(batch, form));
    torch::Tensor loss = paceline::loss_of(scores, wanted, form);
    loss.backward();
    optimizer.step();
    const paceline::Tally tally = paceline::tally_of(loss, scores, wanted, form);
    result.loss += tally.mean_loss();
    result.correct += static_cast<std::int64_t>(tally.correct);
    if (step >= kWarmUp) result.samples += static_cast<std::int64_t>(batch.size());
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

// So that several of these start their first step together, however long each took to load.
void wait_at_gate() {
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) throw Error(Code::invalid, "--gate waits for a line on stdin, and there was none");
}

void run(const Options& options) {
  torch::set_num_threads(1);
  torch::manual_seed(options.seed);
  const DataSplit data = paceline::open_data(options.data);
  const auto net = paceline::make_model(paceline::parse_model(options.model), data.train.form());
  if (options.gate) wait_at_gate();
  const Result result = train(net, data, options);
  std::printf(R"({"model":"%s","batch":%d,"workers":1,"steps":%d,"loss":%.4f,"correct":%lld,"samples_per_s":%.2f})"
              "\n",
              options.model.c_str(), options.batch, options.steps, result.loss / options.steps,
              static_cast<long long>(result.correct), static_cast<double>(result.samples) / result.seconds);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse_options(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
