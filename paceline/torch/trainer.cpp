#include "paceline/torch/trainer.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "paceline/data/deal.hpp"
#include "paceline/data/split.hpp"
#include "paceline/record/figures.hpp"
#include "paceline/torch/model_files.hpp"
#include "paceline/torch/models.hpp"
#include "paceline/torch/noise_spec.hpp"
#include "paceline/torch/optimizers.hpp"
#include "paceline/torch/pretrained.hpp"
#include "paceline/torch/start_together.hpp"
#include "paceline/torch/tensor_collectives.hpp"
#include "paceline/torch/trainer_state.hpp"

namespace paceline {
namespace {

constexpr int kWholeSetTrial = 256;           // examples on which precisions are compared if a step takes all
constexpr std::size_t kTraceEvents = 20'000;  // per rank: some thousand steps of a small model

std::unique_ptr<torch::optim::Optimizer> optimizer_for(const TrainConfig& config, const torch::nn::Module& model) {
  OptimizerSpec spec = parse_optimizer(config.optimizer);
  spec.lr = config.lr;
  spec.weight_decay = config.weight_decay;
  return make_optimizer(spec, model.parameters());
}

// Debian lets LibTorch run on the reference BLAS, which works and takes many times as long.
bool blas_is_slow() {
  return dlsym(RTLD_DEFAULT, "openblas_get_config") == nullptr && dlsym(RTLD_DEFAULT, "mkl_get_version") == nullptr &&
         dlsym(RTLD_DEFAULT, "bli_info_get_version_str") == nullptr;
}

}  // namespace

// ---- before the first step

Trainer::Trainer(Job& job, const TrainConfig& config, std::optional<Sites> sites, DataSplit data,
                 RunJournal::Voice voice)
    : job_(job),
      config_(config),
      sites_(std::move(sites)),
      data_(std::move(data)),
      checkpoints_(config.out + "/checkpoint", config.keep),
      trace_(kTraceEvents),
      handicap_(parse_handicap(config.handicap)),
      agreements_(Communicator::beside(job.endpoint(), job.group(), "Trainer")),
      stream_({.samples = data_.train.size(), .batch = kWholeSet, .seed = config.seed}) {
  if (config_.valid > 0) {
    auto [rest, held_out] = hold_out(data_.train, config_.valid, config_.seed);
    data_.train = std::move(rest);
    valid_ = std::move(held_out);
  }
  make_model();
  const double trial = config_.precision == "fp32" ? 1 : try_bf16();
  if (config_.resume && job_.rank() == 0) restore(newest_checkpoint());
  parallel_ = std::make_unique<DataParallel>(
      job_, *model_.module, *optimizer_, config_.plan.text(),
      DataParallelOptions{
          .bucket_bytes = config_.bucket_bytes,
          .check_every = config_.check_every,
          .share_update = true,
          .buffers = config_.buffers == "rank0" ? BufferPolicy::rank0 : BufferPolicy::average,
          .local_after = config_.post_local * steps_per_epoch(config_, data_.train.size()),
          .mixing = mix_choices(config_),
          .between_sites = {.plan = config_.between_sites, .site_of = sites_ ? sites_->of_rank : std::vector<int>()},
          .trace = &trace_});
  if (model_.tables) tables_.emplace(*model_.tables, parallel_->session(), config_.seed);
  if (config_.resume && job_.rank() == 0) restore_rows();
  share_position();  // nobody goes on before the rows are there
  journal_ = std::make_unique<RunJournal>(config_, job_.rank() == 0 ? voice : RunJournal::Voice::silent,
                                          config_.resume ? at_.step : -1);
  loader_ = std::make_unique<Loader>(
      data_.train, data_.normalisation,
      SamplerOptions{.samples = data_.train.size(),
                     .batch = config_.batch,
                     .workers = job_.size(),
                     .seed = config_.seed,
                     .dealt = deal_out(parse_deal(config_.shard), data_.train.all_labels(), job_.size(), config_.seed)},
      job_.rank(), parse_augmentation(config_.augment));
  watch_gradients();
  if (config_.online > 0)
    online_ = std::make_unique<OnlineMinibatch>(config_.online, config_.global_batch(data_.train.size()));
  agreement_ = job_.endpoint().allocate(agreement_bytes());
  wait_shares_.resize(static_cast<std::size_t>(job_.size()));
  times_.rank = job_.rank();
  times_.host = job_.host();
  introduce();
  choose_precision(trial);
}

void Trainer::make_model() {
  torch::manual_seed(config_.seed);
  model_ = paceline::make_model(parse_model(config_.model), data_.train.form(), model_options(config_));
  // Rank 0's weights become all ranks': the file need not be on every host.
  if (!config_.init.empty() && !config_.resume && job_.rank() == 0)
    started_anew_ = load_weights(model_, config_.init, true);
  optimizer_ = optimizer_for(config_, *model_.module);
  if (config_.theory > 0) study_together();
  rate_ = std::make_unique<LearningRate>(RateSpec{.schedule = config_.schedule,
                                                  .base = base_rate(),
                                                  .total_steps = total_steps(),
                                                  .steps_per_epoch = steps_per_epoch(config_, data_.train.size()),
                                                  .warmup_steps = config_.warmup});
}

// One rank computes, since all have the same data and cores are for training.
void Trainer::study_together() {
  ConvexStudy study;
  if (job_.rank() == 0) study = study_convex(data_.train, data_.normalisation, config_.theory);
  std::string bytes(reinterpret_cast<const char*>(&study), sizeof study);
  broadcast(agreements_, bytes, 0, {.name = "theory"});
  std::memcpy(&study, bytes.data(), sizeof study);
  theory_ = study;
}

double Trainer::base_rate() const {
  if (theory_) return theory_rate(*theory_, staleness_bound(config_.plan.policy()), job_.size());
  return parse_rate_scale(config_.scale_lr).apply(config_.lr, config_.global_batch(data_.train.size()));
}

std::int64_t Trainer::total_steps() const {
  const std::int64_t all = steps_per_epoch(config_, data_.train.size()) * config_.epochs;
  return config_.steps > 0 ? std::min(all, config_.steps) : all;
}

void Trainer::introduce() {
  std::int64_t parameters = 0;
  for (const torch::Tensor& parameter : model_.module->parameters()) parameters += parameter.numel();
  std::string line = fmt::format(
      "{} ({} parameters) on {}: {} + {} examples; {} worker{}{} x batch {}, {} lr {}, {}", config_.model,
      with_thousands(parameters), config_.data, with_thousands(static_cast<std::int64_t>(data_.train.size())),
      with_thousands(static_cast<std::int64_t>(data_.test.size())), job_.size(), job_.size() == 1 ? "" : "s",
      hosts() == 1 ? "" : fmt::format(" on {} hosts ({})", hosts(), job_.endpoint().facts().network),
      batch_text(config_.batch), config_.optimizer, config_.lr, config_.plan.text());
  if (sites_) line += fmt::format("; {}, between them {}", sites_->text(), config_.between_sites);
  if (parallel_->delay_bytes() > 0)
    line += fmt::format("; {:.1f} MB of gradients on their way", static_cast<double>(parallel_->delay_bytes()) / 1e6);
  if (!config_.servers_on.empty())
    line += fmt::format("; {} server process{} on {}", config_.plan.servers(), config_.plan.servers() == 1 ? "" : "es",
                        config_.servers_on);
  if (const auto servers = parallel_->server_statistics()) line += "; updates are applied " + servers->applied;
  if (tables_) line += "; rows on servers: " + model_.tables->text();
  if (at_.step > 0) line += fmt::format("; going on at step {}", at_.step);
  journal_->introduce(line);
  if (!started_anew_.empty())
    journal_->remark(fmt::format("{} of {} starts anew: in {} it has another size", fmt::join(started_anew_, ", "),
                                 config_.model, config_.init));
  if (forgotten_)
    journal_->remark(
        "the checkpoint has nothing of what servers' optimizers remember, such as momentum; it begins anew");
  if (blas_is_slow())
    journal_->remark("LibTorch runs on a slow BLAS here; installing libopenblas0-pthread makes it many times quicker");
}

void Trainer::watch_gradients() {
  const auto parameters = trained(model_.module->parameters());
  std::vector<PartObserver*> observers;
  if (!config_.noise.empty()) {
    noise_ = std::make_unique<CovarianceNoise>(parse_noise(config_.noise), config_.seed, parameters);
    observers.push_back(noise_.get());
  }
  if (config_.gradient_statistics) {
    statistics_ = std::make_unique<GradientStatistics>(parameters, static_cast<std::int64_t>(data_.train.size()));
    observers.push_back(statistics_.get());
  }
  if (!observers.empty()) parts_ = std::make_unique<GradientParts>(parameters, observers);
}

// Before anything listens to the gradients. It leaves no trace: neither in parameters and buffers nor in the random
// numbers that follow.
double Trainer::try_bf16() {
  const std::string generator = generator_state();
  Batch batch;
  std::vector<std::uint32_t> indices;
  const int examples = config_.batch == kWholeSet ? kWholeSetTrial : std::min(config_.batch, config_.micro_batch);
  for (std::size_t i = 0; i < std::min<std::size_t>(static_cast<std::size_t>(examples), data_.train.size()); ++i)
    indices.push_back(static_cast<std::uint32_t>(i));
  fill(batch, data_.train, data_.normalisation, indices);
  model_.module->eval();  // leaves running statistics alone
  const double ratio = bf16_over_fp32([&](Precision precision) {
    precision_ = precision;
    forward_backward(inputs_of(batch, data_.train.form()), answers_of(batch, data_.train.form()), 1);
    model_.module->zero_grad(true);
  });
  precision_ = Precision::fp32;
  model_.module->train();
  set_generator_state(generator);
  return ratio;
}

// All ranks compute in the same numbers, whatever each has measured.
void Trainer::choose_precision(double bf16_over_fp32) {
  if (config_.precision == "fp32") return;
  std::vector<double> ratio = {bf16_over_fp32};
  parallel_->communicator().allreduce(view(ratio), ReduceOp::average, {.name = "precision"});
  const bool pays = ratio[0] < 1;
  if (pays || config_.precision == "bf16") precision_ = Precision::bf16;
  if (config_.precision == "auto" || !pays)
    journal_->remark(
        fmt::format("bf16 takes {:.2f} times as long as fp32 here; computing in {}", ratio[0], name(precision_)));
}

int Trainer::hosts() const {
  const auto& all = job_.endpoint().facts().hosts;
  return static_cast<int>(std::set(all.begin(), all.end()).size());
}

// ---- training

int Trainer::run() {
  while (!stopping() && at_.epoch < config_.epochs && at_.step < total_steps()) {
    online_ ? train_online_epoch() : train_epoch();
    if (!stopping() || at_.consumed >= data_.train.size()) end_epoch();
  }
  if (!stopping()) stop_reason_ = at_.epoch >= config_.epochs ? "all epochs done" : "all steps done";
  finish();
  return stop_signal_;
}

void Trainer::train_epoch() {
  loader_->begin_epoch(at_.epoch, at_.consumed);
  model_.module->train();
  step_began_ = now();
  while (!stopping()) {
    const TimePoint start = now();
    const Batch* batch = loader_->next();
    if (batch == nullptr) break;
    record(Activity::load, start, now() - start);
    times_.in(Activity::load) += seconds(now() - start);
    train_step(*batch);
    if (config_.steps > 0 && at_.step >= config_.steps && !stopping()) stop_reason_ = "all steps done";
    const bool due = config_.checkpoint_every > 0 && at_.step % config_.checkpoint_every == 0;
    const bool epoch_over = at_.consumed >= data_.train.size();  // end_epoch saves it, once it has been told
    if (due && !stopping() && !epoch_over) {
      settle_agreement();
      if (stopping()) return;  // somebody has found a signal, and came here for that
      save_checkpoint();
      step_began_ = now();  // saving is not training
    }
  }
  settle_agreement();
}

int train(Job& job, const TrainConfig& given) {
  TrainConfig config = given;
  const std::optional<Sites> sites = find_sites_together(job, config);
  DataSplit data = open_data_together(job, config.data);
  const bool started_elsewhere = config.workers == 0;
  if (started_elsewhere) settle_together(job, config, data);
  const auto voice = started_elsewhere ? RunJournal::Voice::lines : RunJournal::Voice::draws;
  return Trainer(job, config, sites, std::move(data), voice).run();
}

}  // namespace paceline
