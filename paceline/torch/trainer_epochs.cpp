// What a Trainer does between epochs and at the end: evaluation, and what becomes of it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "paceline/record/atomic_file.hpp"
#include "paceline/torch/generate.hpp"
#include "paceline/torch/layer_costs.hpp"
#include "paceline/torch/model_files.hpp"
#include "paceline/torch/predict_config.hpp"
#include "paceline/torch/script_model.hpp"
#include "paceline/torch/sharpness.hpp"
#include "paceline/torch/table_files.hpp"
#include "paceline/torch/tensor_collectives.hpp"
#include "paceline/torch/trainer_state.hpp"

namespace paceline {
namespace {

constexpr int kEvaluationBatch = 256;

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

void append_scores(std::vector<ScoredExample>& to, const torch::Tensor& outputs, const torch::Tensor& answers) {
  const torch::Tensor scores = (outputs.select(1, 1) - outputs.select(1, 0)).contiguous();
  for (std::int64_t i = 0; i < scores.size(0); ++i)
    to.push_back({scores.data_ptr<float>()[i], static_cast<float>(answers.data_ptr<std::int64_t>()[i])});
}

}  // namespace

Tally Trainer::evaluate(const Dataset& data, std::vector<ScoredExample>* scored) {
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
    const ComputeIn numbers(precision_);
    const torch::Tensor outputs = model_.forward(inputs_of(batch, form)).to(torch::kFloat);
    sum += tally_of(loss_of(outputs, answers, form), outputs, answers, form);
    if (scored != nullptr) append_scores(*scored, outputs, answers);
  }
  std::vector<double> values = {sum.loss, sum.correct, sum.predictions};
  parallel_->communicator().allreduce(view(values), ReduceOp::sum,
                                      {.name = "evaluation", .algorithm = Algorithm::ordered});
  model_.module->train();
  record(Activity::evaluate, start, now() - start);
  return {values[0], values[1], values[2]};
}

// Of clicks, which are rare, accuracy says little: how well they are ordered says more.
void Trainer::evaluate_test(EpochMetrics& metrics) {
  const bool ranks = data_.test.form().kind == Kind::keyed;
  std::vector<ScoredExample> own;
  const Tally test = evaluate(data_.test, ranks ? &own : nullptr);
  metrics.test_loss = test.mean_loss();
  metrics.test_accuracy = test.accuracy();
  if (score() == Score::rmse) metrics.test_rmse = std::sqrt(test.mean_loss());
  if (!ranks) return;
  std::string bytes(own.size() * sizeof(ScoredExample), '\0');
  std::memcpy(bytes.data(), own.data(), bytes.size());
  std::vector<ScoredExample> all;
  for (const std::string& part : allgather(parallel_->communicator(), bytes, {.name = "scores"})) {
    std::vector<ScoredExample> scored(part.size() / sizeof(ScoredExample));
    std::memcpy(scored.data(), part.data(), scored.size() * sizeof(ScoredExample));
    all.insert(all.end(), scored.begin(), scored.end());
  }
  metrics.test_auc = area_under_curve(std::move(all));
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

// What servers send is counted by those who get it, wherever they are.
bool Trainer::counts_hosts() const { return hosts() > 1 && &parallel_->communicator().endpoint() == &job_.endpoint(); }

Trainer::Sent Trainer::sent() {
  const TrafficCounters& counters = job_.endpoint().counters();
  std::vector<std::int64_t> own = {static_cast<std::int64_t>(counters.bytes_sent + counters.bytes_direct),
                                   static_cast<std::int64_t>(counters.bytes_sent_to_other_hosts), 0};
  for (Rank peer = 0; sites_ && peer < job_.size(); ++peer) {
    const auto& places = sites_->of_rank;
    if (places[static_cast<std::size_t>(peer)] != places[static_cast<std::size_t>(job_.rank())])
      own[2] += static_cast<std::int64_t>(job_.endpoint().bytes_sent_to(peer));
  }
  if (const Endpoint& with_servers = parallel_->communicator().endpoint(); &with_servers != &job_.endpoint()) {
    const TrafficCounters& more = with_servers.counters();
    own[0] += static_cast<std::int64_t>(more.bytes_sent + more.bytes_received + more.bytes_direct);
  }
  parallel_->communicator().allreduce(view(own), ReduceOp::sum, {.name = "bytes"});
  return {.all = at_.before.all + static_cast<std::uint64_t>(own[0]),
          .between_hosts = at_.before.between_hosts + static_cast<std::uint64_t>(own[1]),
          .between_sites = at_.before.between_sites + static_cast<std::uint64_t>(own[2])};
}

std::optional<StalenessFigures> Trainer::gather_staleness() {
  const auto own = parallel_->server_statistics();
  if (!own) return std::nullopt;
  std::vector<double> sums = own->reads.sums();
  std::vector<double> maxima = own->reads.maxima();
  parallel_->communicator().allreduce(view(sums), ReduceOp::sum, {.name = "staleness"});
  parallel_->communicator().allreduce(view(maxima), ReduceOp::max, {.name = "staleness"});
  const Staleness all = reads_ = Staleness::from(sums, maxima);
  const Staleness& missed = own->updates.count() > 0 ? own->updates : all;  // of gradients, where servers apply them
  return StalenessFigures{.mean = all.mean(),
                          .variance = all.variance(),
                          .max = all.max(),
                          .violations = all.violations(),
                          .histogram = {all.histogram().begin(), all.histogram().end()},
                          .mean_missed = missed.mean_missed(),
                          .variance_missed = missed.variance_missed(),
                          .max_missed = missed.max_missed()};
}

void Trainer::end_epoch() {
  drain();
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
  evaluate_test(metrics);
  metrics.workers = gather_times();
  for (const WorkerTime& worker : metrics.workers) metrics.wait_share += worker.wait_share() / job_.size();
  const Sent bytes = sent();
  metrics.bytes_sent = bytes.all;
  if (counts_hosts()) metrics.bytes_between_hosts = bytes.between_hosts;
  if (sites_) metrics.bytes_between_sites = bytes.between_sites;
  metrics.staleness = gather_staleness();
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

void Trainer::save_results() {
  if (tables_) copy_values(checkpoints_.rows_path(saved_step_), config_.out + "/" + kModelRows, model_.tables->names());
  save_model(config_.out, *model_.module, fmt::format("{} on {}", config_.model, config_.data));
  if (is_script(model_)) save_script(model_, config_.out + "/model.script.pt");
  if (data_.train.form().kind == Kind::text)
    write_atomically(config_.out + "/sample.txt",
                     generate(model_, data_.train.form(), data_.vocabulary, "", {.count = 500, .seed = config_.seed}));
}

// Of this worker's point of view: the losses are those of all.
TheoryFigures Trainer::theory_figures() const {
  const int bound = staleness_bound(config_.plan.policy());
  const StaleRun run{.problem = theory_->problem,
                     .scale = ssp_scale(theory_->problem, bound, job_.size()),
                     .mean = reads_.mean_missed(),
                     .variance = reads_.variance_missed(),
                     .bound = bound,
                     .workers = job_.size(),
                     .updates = std::max<std::int64_t>(1, at_.step * job_.size())};
  return {.study = *theory_, .run = run, .mean_loss = whole_.mean_loss(), .farthest = farthest_};
}

void Trainer::finish() {
  drain();
  save_checkpoint();
  // A run that stops within an epoch has not been evaluated since the last one ended.
  if (at_.consumed > 0 || last_.epoch == 0) {
    parallel_->sync_buffers();
    evaluate_test(last_);
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
  if (theory_) gather_staleness();
  const Sent bytes = sent();
  const auto traces = gather_traces(parallel_->communicator(), job_.host(), trace_);
  std::optional<Sharpness> sharpness;
  if (config_.sharpness > 0) {
    sharpness =
        sharpness_of(model_, data_.train, data_.normalisation,
                     {.epsilon = config_.sharpness, .seed = config_.seed, .communicator = &parallel_->communicator()});
  }
  if (job_.rank() == 0) save_results();
  nlohmann::ordered_json final = {{"final", true},
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
                                  {"bytes_sent", bytes.all},
                                  {"workers", job_.size()}};
  if (counts_hosts()) final["bytes_between_hosts"] = bytes.between_hosts;
  if (sites_) final["bytes_between_sites"] = bytes.between_sites;
  if (score() == Score::rmse) final["test_rmse"] = std::sqrt(last_.test_loss);
  if (last_.test_auc) final["test_auc"] = *last_.test_auc;
  if (statistics_) final["gradient"] = to_json(statistics_->figures());
  if (sharpness) final["sharpness"] = to_json(*sharpness);
  if (theory_) final["theory"] = to_json(theory_figures());
  if (online_) final["online"] = to_json(online_->counters(), config_.global_batch(data_.train.size()));
  if (statistics_) journal_->remark(statistics_->figures().text());
  if (online_) journal_->remark(online_->counters().text());
  if (theory_) {
    for (const std::string& line : theory_figures().lines()) journal_->remark(line);
  }
  const double per_step = compute_seconds_ / static_cast<double>(std::max<std::int64_t>(1, steps_here_));
  const bool tells = job_.rank() == 0;
  journal_->finish(final, traces, tells ? layer_costs(model_, data_.train.form()) : std::vector<LayerCost>(), per_step);
  parallel_->communicator().barrier({.name = "end"});
}

}  // namespace paceline
