#include "paceline/cli/train_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "paceline/cli/measure.hpp"
#include "paceline/data/open.hpp"
#include "paceline/exchange/plan.hpp"
#include "paceline/launch/host_list.hpp"
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
      .add_option("--theory", a.config.theory,
                  "Print what is proved about the regret beside what is measured, for parameters in a ball of this "
                  "radius; chooses the learning rate")
      ->check(CLI::Range(1e-6, 1e6))
      ->excludes(command.get_option("--lr"))
      ->excludes(command.get_option("--schedule"))
      ->excludes(command.get_option("--warmup"))
      ->excludes(command.get_option("--scale-lr"))
      ->type_name("RADIUS");
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
  command
      .add_option("--post-local", a.config.post_local,
                  "With --when local:K: gradients meet in every step until this many epochs are over")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("EPOCHS");
  command
      .add_option("--slow-momentum", a.config.slow_momentum,
                  "With --when local:K, or between sites: momentum from one average to the next, as 0.5")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("FLOAT");
  command
      .add_option_function<std::string>(
          "--between-sites", [&a](const std::string& plan) { a.config.between_sites = parse_plan(plan).text(); },
          "Another plan between sites than inside them, as 'when=local:16': parameters are averaged between sites "
          "every 16 steps")
      ->type_name("PLAN");
  command
      .add_option(
          "--sites", a.config.sites,
          "With --between-sites: how many sites of as many consecutive hosts each, or hosts by name, as a,b/c,d "
          "(default: each host is a site)")
      ->type_name("WORD");
  command
      .add_option("--participate", a.participate,
                  "With --when local:K: only this share of the workers, as 10%, drawn anew, trains in each round")
      ->type_name("SHARE");
  command
      .add_option_function<std::string>(
          "--servers-on", [&a](const std::string& hosts) { a.servers_on = hosts; },
          "With --where server:N: servers are processes of their own, on these hosts in turn, as a,b; localhost is "
          "here (default: threads of the workers)")
      ->type_name("HOSTS");
  command
      .add_option(
          "--apply", a.config.apply,
          "With --where server:N: servers apply gradients, or workers their optimizers; auto: servers where they "
          "can, but not with ssp and essp")
      ->capture_default_str();
  command.add_flag("--divide-by-staleness", a.config.divide_by_staleness,
                   "With --where server:N --when async: the rate of a gradient by how many updates it has missed");
  command
      .add_option("--compensate-delay", a.config.compensation,
                  "With --where server:N --when async: lambda of DC-ASGD, as 0.04")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("FLOAT");
  command
      .add_option("--push-every", a.config.push_every, "With --where server:N --when async: steps between two pushes")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("STEPS");
  command.add_option("--fetch-every", a.config.fetch_every, "The same between two reads of the parameters")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("STEPS");
  command.add_option("--bucket", a.bucket,
                     "Gradients that travel together, as 4MiB (default: by the number of ranks and what they cost)");
  command
      .add_option("--check-every", a.config.check_every,
                  "Steps between comparisons of the workers' parameters; 0: never")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
}

void add_who(CLI::App& command, TrainArguments& a) {
  command
      .add_option("--shard", a.config.shard,
                  "Which examples each worker gets: iid, by-label, or dirichlet:A, in which a small A makes workers "
                  "differ much")
      ->capture_default_str();
  command
      .add_option("--handicap", a.config.handicap,
                  "Make a worker compute FACTOR times as long: random:FACTOR (another one in each step), "
                  "fixed:RANK:FACTOR")
      ->type_name("WORD");
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
  add_who(command, arguments);
  add_where_to(command, arguments);
  add_host_options(command, arguments.hosts);
}

void read_words(TrainArguments& a) {
  if (!a.until.empty()) a.config.until = parse_target(a.until);
  a.config.batch = parse_batch(a.batch);
  if (!a.valid.empty()) a.config.valid = parse_share(a.valid);
  if (!a.bucket.empty()) a.config.bucket_bytes = parse_size(a.bucket);
  if (!a.participate.empty()) a.config.participate = parse_share(a.participate);
  if (a.servers_on) a.config.servers_on = fmt::format("{}", fmt::join(parse_server_hosts(*a.servers_on), ","));
  a.config.threads = a.threads;
  check_words(a.config);
  if (a.hosts.several() && a.config.plan.route() == Where::hogwild)
    throw Error(Code::invalid,
                "where=hogwild has all workers change one memory, which several hosts do not share; use --where gossip "
                "--when async");
}

}  // namespace paceline
