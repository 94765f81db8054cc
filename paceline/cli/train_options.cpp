#include "paceline/cli/train_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "paceline/cli/measure.hpp"
#include "paceline/data/open.hpp"
#include "paceline/exchange/plan.hpp"
#include "paceline/torch/model_spec.hpp"
#include "paceline/torch/optimizer_spec.hpp"
#include "paceline/torch/rate_spec.hpp"

namespace paceline {
namespace {

void add_what(CLI::App& command, TrainArguments& a) {
  command.add_option("--model", a.config.model, model_help())->capture_default_str();
  command
      .add_option("--init", a.config.init,
                  "Begin with the weights of a .safetensors or .pt file; a last layer of another size starts anew")
      ->type_name("FILE");
  command.add_option("--data", a.config.data, data_help())->capture_default_str();
  command
      .add_option("--augment", a.config.augment, "Change training images at random: flip, crop:N, flip,crop:4, or none")
      ->capture_default_str();
  command.add_option("-n,--workers", a.workers, "How many workers (default: one per core, or as --hosts says)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command.add_option("--threads", a.threads, "Cores per worker (default: cores / workers)")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command.add_option("--batch", a.batch, "Examples per worker and step, or all: the whole set in every step")
      ->capture_default_str();
  command
      .add_option("--micro-batch", a.config.micro_batch,
                  "Larger batches go through the model in parts of this many examples")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command.add_option("--epochs", a.config.epochs, "Passes over the training set (default: 3, more for small sets)")
      ->check(CLI::Range(1, 1'000'000));
  command
      .add_option("--scale-epochs", a.config.scale_epochs,
                  "--epochs is for this batch of all workers; a larger one makes as many steps, not passes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("BATCH");
  command.add_option("--steps", a.config.steps, "Stop after this many steps")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--until", a.until,
                     "Stop when an epoch ends with accuracy=X or loss=X, of the held-out part or the test set");
  command.add_option("--valid", a.valid,
                     "Hold out this share of the training set, as 10%; it drives --until and --schedule");
  command.add_option("--seed", a.config.seed, "Of initial weights and the order of examples")->capture_default_str();
}

void add_how(CLI::App& command, TrainArguments& a) {
  command.add_option("--optimizer", a.config.optimizer, optimizer_help())->capture_default_str();
  command
      .add_option("--precision", a.config.precision,
                  "In which numbers layers compute: fp32, bf16, or auto for the quicker one on this machine")
      ->capture_default_str();
  command.add_option("--lr", a.config.lr, "Learning rate (default: the optimizer's)")
      ->check(CLI::Range(1e-12, 1e6))
      ->type_name("FLOAT");
  command.add_option("--weight-decay", a.config.weight_decay, "L2 penalty; of adamw, decoupled")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("FLOAT");
  command.add_option("--clip", a.config.clip, "Largest norm of the gradient")
      ->check(CLI::Range(1e-12, 1e12))
      ->type_name("FLOAT");
  command.add_option("--schedule", a.config.schedule, "Learning rate over time: " + schedule_help())
      ->capture_default_str();
  command.add_option("--warmup", a.config.warmup, "Steps in which the learning rate grows from zero")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("STEPS");
  command
      .add_option(
          "--scale-lr", a.config.scale_lr,
          "How the rate grows with the batch of all workers: none, linear[:BATCH], sqrt[:BATCH]; it is given for "
          "BATCH, or 64")
      ->capture_default_str();
  command
      .add_option("--noise", a.config.noise,
                  "Give the gradient the noise of a batch of this size: fisher-diag:BATCH, fisher-trace:BATCH")
      ->type_name("WORD");
  command.add_flag("--gradient-statistics", a.config.gradient_statistics,
                   "Measure the gradient's noise scale and diversity, and the batch sizes they suggest");
  command
      .add_option("--sharpness", a.config.sharpness, "Measure the end point's sharpness in a box of this size, as 1e-3")
      ->check(CLI::Range(1e-12, 1.0))
      ->type_name("FLOAT");
  command
      .add_option(
          "--online", a.config.online,
          "Examples arrive as a stream of this many a second; those that come while a sum travels are predicted "
          "and not learned from")
      ->check(CLI::Range(1e-3, 1e12))
      ->type_name("RATE");
  command
      .add_option("--buffers", a.config.buffers, "Running statistics of batch norm: average over the workers, or rank0")
      ->capture_default_str();
  command.add_option("--ghost-batch", a.config.ghost_batch, "Batch norm looks at this many examples at a time")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N");
  command.add_flag("--checkpoint-activations", a.config.checkpoint_activations,
                   "Compute activations again in backward instead of keeping them: less memory, one more forward pass");
  for (const std::string names : {"--split", "--when,--sync", "--where,--comm", "--what,--compress"}) {
    const std::string key = names.substr(2, names.find(',') - 2);
    command.add_option_function<std::string>(
        names, [&a, key](const std::string& word) { a.config.plan.set(key, word); },
        fmt::format("Of the plan: {}", fmt::join(plan_words(key), ", ")));
  }
  command.add_option("--bucket", a.bucket,
                     "Gradients that travel together, as 4MiB (default: by the number of ranks and what they cost)");
  command
      .add_option("--check-every", a.config.check_every,
                  "Steps between comparisons of the workers' parameters; 0: never")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
}

void add_where_to(CLI::App& command, TrainArguments& a) {
  command
      .add_option("--out", a.config.out,
                  "The run folder (default: runs/MODEL-DATA-TIME); with --hosts on the first host")
      ->type_name("DIR");
  command.add_flag("--resume", a.config.resume, "Go on from the newest checkpoint in the run folder");
  command
      .add_option("--checkpoint-every", a.config.checkpoint_every, "Steps between checkpoints (default: one per epoch)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--keep", a.config.keep, "How many checkpoints to keep")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_flag("--json", a.config.json, "One JSON line per epoch and a last one, instead of text");
  command.add_flag("--quiet", a.config.quiet, "Only the result");
}

}  // namespace

void add_train_options(CLI::App& command, TrainArguments& arguments) {
  add_what(command, arguments);
  add_how(command, arguments);
  add_where_to(command, arguments);
  add_host_options(command, arguments.hosts);
}

void read_words(TrainArguments& a) {
  if (!a.until.empty()) a.config.until = parse_target(a.until);
  a.config.batch = parse_batch(a.batch);
  if (!a.valid.empty()) a.config.valid = parse_share(a.valid);
  if (!a.bucket.empty()) a.config.bucket_bytes = parse_size(a.bucket);
  a.config.threads = a.threads;
  check_words(a.config);
}

}  // namespace paceline
