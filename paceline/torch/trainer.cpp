#include "paceline/torch/trainer.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "paceline/data/split.hpp"
#include "paceline/record/figures.hpp"
#include "paceline/torch/model_files.hpp"
#include "paceline/torch/models.hpp"
#include "paceline/torch/start_together.hpp"
#include "paceline/torch/tensor_collectives.hpp"
#include "paceline/torch/trainer_state.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kWarmUpSteps = 5;      // not counted in samples/s
constexpr std::size_t kTraceEvents = 20'000;  // per rank: some thousand steps of a small model
constexpr int kEvaluationBatch = 256;

std::unique_ptr<torch::optim::Optimizer> optimizer_for(const TrainConfig& c, std::vector<torch::Tensor> parameters) {
  using namespace torch::optim;
  if (c.optimizer == "adam")
    return std::make_unique<Adam>(std::move(parameters), AdamOptions(c.lr).weight_decay(c.weight_decay));
  if (c.optimizer == "adamw")
    return std::make_unique<AdamW>(std::move(parameters), AdamWOptions(c.lr).weight_decay(c.weight_decay));
  if (c.optimizer == "rmsprop")
    return std::make_unique<RMSprop>(std::move(parameters), RMSpropOptions(c.lr).weight_decay(c.weight_decay));
  if (c.optimizer == "adagrad")
    return std::make_unique<Adagrad>(std::move(parameters), AdagradOptions(c.lr).weight_decay(c.weight_decay));
  const bool nesterov = c.optimizer == "nesterov";
  const double momentum = c.optimizer == "sgd" ? 0 : 0.9;
  return std::make_unique<SGD>(std::move(parameters),
                               SGDOptions(c.lr).momentum(momentum).nesterov(nesterov).weight_decay(c.weight_decay));
}

void set_lr(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

// Debian lets LibTorch run on the reference BLAS, which works and takes many times as long.
bool blas_is_slow() {
  return dlsym(RTLD_DEFAULT, "openblas_get_config") == nullptr && dlsym(RTLD_DEFAULT, "mkl_get_version") == nullptr &&
         dlsym(RTLD_DEFAULT, "bli_info_get_version_str") == nullptr;
}

// All on the clock of this rank: each host has its own.
std::vector<RankTrace> gather_traces(Communicator& communicator, const std::string& host, const Trace& trace) {
  const std::vector<TraceEvent> own = trace.events();
  std::string bytes(own.size() * sizeof(TraceEvent), '\0');
  std::memcpy(bytes.data(), own.data(), bytes.size());
  const auto events = allgather(communicator, bytes, {.name = "traces"});
  const auto names = allgather(communicator, fmt::format("{}\n{}", getpid(), host), {.name = "names"});
  std::vector<RankTrace> all;
  for (std::size_t rank = 0; rank < events.size(); ++rank) {
    RankTrace& one = all.emplace_back();
    one.rank = static_cast<Rank>(rank);
    one.pid = std::atoi(names[rank].c_str());
    one.host = names[rank].substr(names[rank].find('\n') + 1);
    one.events.resize(events[rank].size() / sizeof(TraceEvent));
    std::memcpy(one.events.data(), events[rank].data(), one.events.size() * sizeof(TraceEvent));
    const Duration offset = communicator.endpoint().clock_offset(one.rank);
    for (TraceEvent& event : one.events) event.start -= offset;
  }
  return all;
}

}  // namespace

// ---- before the first step

Trainer::Trainer(Job& job, const TrainConfig& config, DataSplit data, RunJournal::Voice voice)
    : job_(job),
      config_(config),
      data_(std::move(data)),
      checkpoints_(config.out + "/checkpoint", config.keep),
      trace_(kTraceEvents) {
  if (config_.valid > 0) {
    auto [rest, held_out] = hold_out(data_.train, config_.valid, config_.seed);
    data_.train = std::move(rest);
    valid_ = std::move(held_out);
  }
  make_model();
  if (config_.resume && job_.rank() == 0) restore(newest_checkpoint());
  parallel_ = std::make_unique<DataParallel>(job_, *model_.module, *optimizer_, config_.plan.text(),
                                             DataParallelOptions{.bucket_bytes = config_.bucket_bytes,
                                                                 .check_every = config_.check_every,
                                                                 .share_update = true,
                                                                 .trace = &trace_});
  share_position();
  journal_ = std::make_unique<RunJournal>(config_, job_.rank() == 0 ? voice : RunJournal::Voice::silent,
                                          config_.resume ? at_.step : -1);
  loader_ = std::make_unique<Loader>(
      data_.train, data_.normalisation,
      SamplerOptions{
          .samples = data_.train.size(), .batch = config_.batch, .workers = job_.size(), .seed = config_.seed},
      job_.rank());
  agreement_ =
      job_.endpoint().allocate(sizeof(double) * (4 + StopSignals::kCount + static_cast<std::size_t>(job_.size())));
  wait_shares_.resize(static_cast<std::size_t>(job_.size()));
  times_.rank = job_.rank();
  times_.host = job_.host();
  introduce();
}

void Trainer::make_model() {
  torch::manual_seed(config_.seed);
  model_ = paceline::make_model(parse_model(config_.model), data_.train.form());
  optimizer_ = optimizer_for(config_, model_.module->parameters());
  rate_ = std::make_unique<LearningRate>(config_.schedule, config_.lr, total_steps());
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
  if (at_.step > 0) line += fmt::format("; going on at step {}", at_.step);
  journal_->introduce(line);
  if (blas_is_slow())
    journal_->remark("LibTorch runs on a slow BLAS here; installing libopenblas0-pthread makes it many times quicker");
}

int Trainer::hosts() const {
  const auto& all = job_.endpoint().facts().hosts;
  return static_cast<int>(std::set(all.begin(), all.end()).size());
}

// ---- training

int Trainer::run() {
  while (!stopping() && at_.epoch < config_.epochs && at_.step < total_steps()) {
    train_epoch();
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
    if (batch == nullptr) return;
    record(Activity::load, start, now() - start);
    times_.in(Activity::load) += seconds(now() - start);
    train_step(*batch);
    if (config_.steps > 0 && at_.step >= config_.steps && !stopping()) stop_reason_ = "all steps done";
    const bool due = config_.checkpoint_every > 0 && at_.step % config_.checkpoint_every == 0;
    const bool epoch_over = at_.consumed >= data_.train.size();  // end_epoch saves it, once it has been told
    if (due && !stopping() && !epoch_over) {
      save_checkpoint();
      step_began_ = now();  // saving is not training
    }
  }
}

void Trainer::train_step(const Batch& batch) {
  const TimePoint start = now();
  const ParallelTimes before = parallel_->times();
  set_lr(*optimizer_, rate_->at(at_.step));
  Tally tally = forward_backward(batch);
  const TimePoint computed = now();
  const Duration in_backward = parallel_->times().communicate - before.communicate;
  if (config_.clip > 0) parallel_->clip_grad_norm(config_.clip);
  parallel_->step();
  const ParallelTimes after = parallel_->times();
  record(Activity::compute, start, computed - start);
  times_.in(Activity::compute) += seconds(computed - start - in_backward);
  times_.in(Activity::communicate) += seconds(after.communicate - before.communicate);
  times_.in(Activity::wait) += seconds(after.wait - before.wait);
  times_.in(Activity::update) += seconds(after.update - before.update);
  ++at_.step;
  at_.consumed = batch.consumed;
  agree(tally);
}

// Gradients of the mean over all workers' examples: a part's mean counts by its share of them. Of full batches that is
// a factor of one. A batch that is too large for memory goes through the model in parts.
Tally Trainer::forward_backward(const Batch& batch) {
  // To none: backward then hands its gradients over, and copying them into the arena costs half of what zeroing the old
  // ones and adding to them would.
  model_.module->zero_grad(true);
  if (batch.size() == 0) return {};
  const Form& form = data_.train.form();
  const torch::Tensor inputs = inputs_of(batch, form);
  const torch::Tensor answers = answers_of(batch, form);
  const auto size = static_cast<std::int64_t>(batch.size());
  Tally tally;
  for (std::int64_t first = 0; first < size; first += config_.micro_batch) {
    const std::int64_t count = std::min<std::int64_t>(config_.micro_batch, size - first);
    const double weight = static_cast<double>(count) * job_.size() / static_cast<double>(batch.global_size);
    std::optional<DataParallel::NoSync> quiet;
    if (first + count < size) quiet.emplace(*parallel_);
    tally += forward_backward(inputs.narrow(0, first, count),
                              answers.narrow(0, first * form.predictions(), count * form.predictions()), weight);
  }
  return tally;
}

Tally Trainer::forward_backward(const torch::Tensor& inputs, const torch::Tensor& answers, double weight) {
  const Form& form = data_.train.form();
  const torch::Tensor outputs = model_.forward(inputs);
  torch::Tensor loss = loss_of(outputs, answers, form);
  (weight == 1 ? loss : loss * weight).backward();
  return tally_of(loss, outputs, answers, form);
}

// See Note [Steps and agreement].
void Trainer::agree(Tally& tally) {
  // From the end of the last agreement's own measurement to here: all that a step costs, agreement included.
  const TimePoint end = now();
  const Duration whole_step = end - std::exchange(step_began_, end);
  const auto values = agreement_.as<double>();
  std::fill(values.begin(), values.end(), 0.0);
  values[0] = tally.loss;
  values[1] = tally.correct;
  values[2] = tally.predictions;
  values[3] = seconds(whole_step);
  const std::size_t first_signal = 4;
  const std::size_t first_share = first_signal + StopSignals::kCount;
  if (const int signal = signals_.pending(); signal >= 0) values[first_signal + static_cast<std::size_t>(signal)] = 1;
  values[first_share + static_cast<std::size_t>(job_.rank())] = times_.wait_share();
  parallel_->communicator().allreduce(view(values), ReduceOp::sum, {.name = "step"});
  tally = {values[0], values[1], values[2]};
  const double duration = values[3] / job_.size();
  for (std::size_t r = 0; r < wait_shares_.size(); ++r) wait_shares_[r] = static_cast<float>(values[first_share + r]);
  for (int i = 0; i < StopSignals::kCount; ++i) {
    if (values[first_signal + static_cast<std::size_t>(i)] == 0) continue;
    stop_reason_ = "interrupted by " + StopSignals::name(i);
    stop_signal_ = StopSignals::number(i);
  }
  at_.seconds += duration;
  for (Tally* sum : {&at_.tally, &point_}) {
    *sum += tally;
  }
  if (++steps_here_ > kWarmUpSteps) {
    for (Rate* rate : {&epoch_rate_, &run_rate_, &point_rate_}) {
      rate->examples += tally.predictions / data_.train.form().predictions();
      rate->seconds += duration;
    }
  }
  tell_progress();
}

void Trainer::tell_progress() {
  constexpr double kPointSeconds = 0.5;
  if (point_rate_.seconds > kPointSeconds) {
    journal_->add_point({.step = at_.step,
                         .seconds = at_.seconds,
                         .loss = point_.mean_loss(),
                         .samples_per_s = point_rate_.per_second(),
                         .wait_shares = wait_shares_});
    point_ = {};
    point_rate_ = {};
  }
  journal_->tell_progress(now(), [&] {
    const std::int64_t steps = steps_per_epoch(config_, data_.train.size());
    const double per_step = at_.seconds / static_cast<double>(std::max<std::int64_t>(1, at_.step));
    const double done = static_cast<double>(at_.consumed) / static_cast<double>(data_.train.size());
    return Progress{.epoch = at_.epoch + 1,
                    .epochs = config_.epochs,
                    .step = static_cast<std::int64_t>(std::ceil(done * static_cast<double>(steps))),
                    .steps = steps,
                    .samples_per_s = run_rate_.per_second(),
                    .loss = at_.tally.mean_loss(),
                    .accuracy = at_.tally.accuracy(),
                    .seconds_left = per_step * static_cast<double>(total_steps() - at_.step),
                    .wait_shares = wait_shares_};
  });
}

void Trainer::record(Activity activity, TimePoint start, Duration length) {
  trace_.add({.start = start, .length = length, .step = at_.step, .activity = activity});
}

// ---- between epochs

Tally Trainer::evaluate(const Dataset& data) {
  const TimePoint start = now();
  const torch::NoGradGuard no_grad;
  model_.module->eval();
  const Range share = share_of(data.size(), job_.size(), job_.rank());
  Tally sum;
  Batch batch;
  std::vector<std::uint32_t> indices;
  for (std::size_t first = share.first; first < share.last; first += kEvaluationBatch) {
    indices.clear();
    for (std::size_t i = first; i < std::min<std::size_t>(share.last, first + kEvaluationBatch); ++i)
      indices.push_back(static_cast<std::uint32_t>(i));
    fill(batch, data, data_.normalisation, indices);
    const Form& form = data.form();
    const torch::Tensor answers = answers_of(batch, form);
    const torch::Tensor outputs = model_.forward(inputs_of(batch, form));
    sum += tally_of(loss_of(outputs, answers, form), outputs, answers, form);
  }
  std::vector<double> values = {sum.loss, sum.correct, sum.predictions};
  parallel_->communicator().allreduce(view(values), ReduceOp::sum,
                                      {.name = "evaluation", .algorithm = Algorithm::ordered});
  model_.module->train();
  record(Activity::evaluate, start, now() - start);
  return {values[0], values[1], values[2]};
}

std::vector<WorkerTime> Trainer::gather_times() {
  std::vector<double> own(times_.seconds.begin(), times_.seconds.end());
  std::vector<double> all(own.size() * static_cast<std::size_t>(job_.size()));
  parallel_->communicator().allgather(view(own), view(all), {.name = "times"});
  const auto hosts = allgather(parallel_->communicator(), job_.host(), {.name = "hosts"});
  std::vector<WorkerTime> times;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    WorkerTime& one = times.emplace_back();
    one.rank = static_cast<Rank>(r);
    one.host = hosts[r];
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(r * own.size()), own.size(), one.seconds.begin());
  }
  return times;
}

std::uint64_t Trainer::bytes_sent() {
  const TrafficCounters& counters = job_.endpoint().counters();
  std::vector<std::int64_t> own = {static_cast<std::int64_t>(counters.bytes_sent + counters.bytes_direct)};
  parallel_->communicator().allreduce(view(own), ReduceOp::sum, {.name = "bytes"});
  return at_.bytes_before + static_cast<std::uint64_t>(own[0]);
}

void Trainer::end_epoch() {
  parallel_->sync_buffers();
  EpochMetrics metrics{.epoch = at_.epoch + 1,
                       .step = at_.step,
                       .seconds = at_.seconds,
                       .loss = at_.tally.mean_loss(),
                       .train_accuracy = at_.tally.accuracy(),
                       .samples_per_s = epoch_rate_.per_second(),
                       .learning_rate = rate_->at(at_.step)};
  if (valid_) {
    const Tally valid = evaluate(*valid_);
    metrics.valid_loss = valid.mean_loss();
    metrics.valid_accuracy = valid.accuracy();
  }
  const Tally test = evaluate(data_.test);
  metrics.test_loss = test.mean_loss();
  metrics.test_accuracy = test.accuracy();
  metrics.workers = gather_times();
  for (const WorkerTime& worker : metrics.workers) metrics.wait_share += worker.wait_share() / job_.size();
  metrics.bytes_sent = bytes_sent();
  const double driving_loss = metrics.valid_loss.value_or(metrics.test_loss);
  rate_->end_epoch(driving_loss);
  if (config_.until && config_.until->reached(metrics.valid_accuracy.value_or(metrics.test_accuracy), driving_loss)) {
    stop_reason_ = "reached " + config_.until->text();
    stop_signal_ = 0;  // what came in the last step has not ended it
  }
  last_ = metrics;
  ++at_.epoch;
  at_.consumed = 0;
  at_.tally = {};
  epoch_rate_ = {};
  times_.seconds.fill(0);
  journal_->end_epoch(metrics);
  save_checkpoint();
}

void Trainer::finish() {
  save_checkpoint();
  // A run that stops within an epoch has not been evaluated since the last one ended.
  if (at_.consumed > 0 || last_.epoch == 0) {
    parallel_->sync_buffers();
    const Tally test = evaluate(data_.test);
    last_.test_loss = test.mean_loss();
    last_.test_accuracy = test.accuracy();
    if (at_.tally.predictions > 0) {
      last_.loss = at_.tally.mean_loss();
      last_.train_accuracy = at_.tally.accuracy();
    } else if (const EpochMetrics* earlier = journal_->last_epoch()) {  // resumed, with nothing left to do
      last_.loss = earlier->loss;
      last_.train_accuracy = earlier->train_accuracy;
    }
    if (last_.workers.empty()) last_.workers = gather_times();
    last_.wait_share = 0;
    for (const WorkerTime& worker : last_.workers) last_.wait_share += worker.wait_share() / job_.size();
  }
  const std::uint64_t bytes = bytes_sent();
  const auto traces = gather_traces(parallel_->communicator(), job_.host(), trace_);
  if (job_.rank() == 0) save_model(config_.out, *model_.module, fmt::format("{} on {}", config_.model, config_.data));
  const nlohmann::ordered_json final = {{"final", true},
                                        {"stop_reason", stop_reason_},
                                        {"epoch", at_.epoch},
                                        {"step", at_.step},
                                        {"seconds", at_.seconds},
                                        {"loss", last_.loss},
                                        {"train_accuracy", last_.train_accuracy},
                                        {"test_loss", last_.test_loss},
                                        {"test_accuracy", last_.test_accuracy},
                                        {"samples_per_s", run_rate_.per_second()},
                                        {"wait_share", last_.wait_share},
                                        {"bytes_sent", bytes},
                                        {"workers", job_.size()}};
  journal_->finish(final, traces);
  parallel_->communicator().barrier({.name = "end"});
}

int train(Job& job, const TrainConfig& given) {
  TrainConfig config = given;
  DataSplit data = open_data_together(job, config.data);
  const bool started_elsewhere = config.workers == 0;
  if (started_elsewhere) settle_together(job, config, data);
  const auto voice = started_elsewhere ? RunJournal::Voice::lines : RunJournal::Voice::draws;
  return Trainer(job, config, std::move(data), voice).run();
}

}  // namespace paceline
