#include "paceline/torch/predictor.hpp"

#include <fmt/format.h>
#include <torch/serialize.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "paceline/core/error.hpp"
#include "paceline/data/batch.hpp"
#include "paceline/data/prefetch.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/record/figures.hpp"
#include "paceline/record/safetensors.hpp"
#include "paceline/torch/low_precision.hpp"
#include "paceline/torch/model_tables.hpp"
#include "paceline/torch/predictor_state.hpp"
#include "paceline/torch/replicas.hpp"
#include "paceline/torch/start_together.hpp"
#include "paceline/torch/tensor_collectives.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {
namespace {

constexpr int kTrialRounds = 9;
constexpr int kWarmUpRounds = 2;
constexpr std::size_t kPlainBatches = 200;       // of the loop beside ours
constexpr double kPlainBytes = 512.0 * 1048576;  // its tensors are all in memory at once

Error of_another_model(const std::string& path, const std::string& what) {
  return Error(Code::invalid, fmt::format("{} is of another model than its config.json says: {}", path, what));
}

const char* weight_type(torch::ScalarType type) {
  return type == torch::kFloat ? "F32" : type == torch::kLong ? "I64" : type == torch::kDouble ? "F64" : "";
}

void copy_in(const SafetensorsFile& file, const std::string& path, const NamedTensor& item) {
  const NamedArray* array = file.find(item.name);
  if (array == nullptr) throw of_another_model(path, fmt::format("it has no '{}'", item.name));
  if (array->shape != item.tensor.sizes().vec() || array->dtype != weight_type(item.tensor.scalar_type()))
    throw of_another_model(path, fmt::format("its '{}' is of another shape or type", item.name));
  torch::Tensor copy = torch::empty(item.tensor.sizes(), item.tensor.options().requires_grad(false));
  if (!array->bytes.empty()) std::memcpy(copy.data_ptr(), array->bytes.data(), array->bytes.size());
  torch::Tensor target = item.tensor.detach();
  target.copy_(copy);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// p50, p95 and p99, in milliseconds.
std::vector<double> latencies(const Pace& pace) {
  return {1e3 * pace.percentile(0.5), 1e3 * pace.percentile(0.95), 1e3 * pace.percentile(0.99)};
}

std::string pace_line(const char* who, const Pace& pace) {
  const auto ms = latencies(pace);
  return fmt::format("  {:<16}{:>12}{:>10.3f}{:>10.3f}{:>10.3f}\n", who, rounded(pace.samples_per_s), ms[0], ms[1],
                     ms[2]);
}

nlohmann::ordered_json pace_json(const Pace& pace) {
  const auto ms = latencies(pace);
  return {{"samples_per_s", pace.samples_per_s}, {"p50_ms", ms[0]}, {"p95_ms", ms[1]}, {"p99_ms", ms[2]}};
}

}  // namespace

void load_model(const std::string& folder, torch::nn::Module& model) try {
  const torch::NoGradGuard no_grad;
  const std::string path = folder + "/model.safetensors";
  if (!std::filesystem::is_regular_file(path)) {
    torch::serialize::InputArchive archive;
    archive.load_from(folder + "/model.pt");
    return model.load(archive);
  }
  const SafetensorsFile file(path);
  for (const NamedTensor& item : distinct_parameters(model)) copy_in(file, path, item);
  for (const NamedTensor& item : distinct_buffers(model)) copy_in(file, path, item);
} catch (const c10::Error& error) {
  throw of_another_model(folder + "/model.pt", error.what_without_backtrace());
}

double Pace::percentile(double share) const {
  if (batch_seconds.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(batch_seconds.size())));
  return batch_seconds[std::clamp<std::size_t>(rank, 1, batch_seconds.size()) - 1];
}

Predictor::Predictor(Job& job, const PredictConfig& config)
    : job_(job),
      config_(config),
      trained_(config_of_run(config.run)),
      data_(open_for_prediction(config, trained_)),
      form_(data_.examples.form()),
      share_(share_of(data_.examples.size(), job.size(), job.rank())),
      world_(Communicator::beside(job.endpoint(), job.group(), "predict")) {}

Model Predictor::load(Precision precision) const {
  Model model = make_model(parse_model(trained_.model), form_);
  load_model(config_.run, *model.module);
  if (model.tables) model.tables->load(config_.run + "/" + kModelRows, trained_.seed);
  model.module->eval();
  return in_precision(std::move(model), precision);
}

// A file that is damaged is so for all of them; one says it.
Model Predictor::load_together() {
  Model model;
  std::string refusal;
  try {
    model = load(config_.precision);
  } catch (const Error& error) {
    refusal = error.what();
  }
  refuse_together(job_, refusal);
  return model;
}

std::size_t Predictor::steps() const {
  const auto batch = static_cast<std::size_t>(config_.batch);
  return (share_.last - share_.first + batch - 1) / batch;
}

std::vector<std::uint32_t> Predictor::indices(std::size_t step) const {
  const std::size_t first = share_.first + step * static_cast<std::size_t>(config_.batch);
  std::vector<std::uint32_t> all;
  for (std::size_t i = first; i < std::min(share_.last, first + static_cast<std::size_t>(config_.batch)); ++i)
    all.push_back(static_cast<std::uint32_t>(i));
  return all;
}

// ---- is a lower precision worth it?

// All workers at once, as they will run: they share the machine's memory.
Trial Predictor::try_precision(Model& lower) {
  std::vector<double> mean = {0, 0, 0};
  world_.barrier({.name = "trial"});
  if (steps() > 0) {
    const Model full = load(Precision::fp32);
    Batch batch;
    fill(batch, data_.examples, data_.normalisation, indices(0));
    const torch::Tensor inputs = inputs_of(batch, form_);
    std::vector<double> times[2];
    for (int round = 0; round < kWarmUpRounds + kTrialRounds; ++round) {
      for (const int which : {0, 1}) {
        const TimePoint start = now();
        (which == 0 ? full : lower).forward(inputs);
        if (round >= kWarmUpRounds) times[which].push_back(seconds(now() - start));
      }
    }
    mean = {median(times[0]), median(times[1]), 1};
  }
  world_.allreduce(view(mean), ReduceOp::sum, {.name = "trial"});
  return {mean[0] / mean[2], mean[1] / mean[2]};
}

void Predictor::require_gain(const Trial& trial) const {
  if (config_.force || trial.lower_seconds < trial.fp32_seconds) return;
  // All workers know it; the first says it.
  throw Error(
      Code::invalid, 0,
      fmt::format("{} takes {:.2f} times as long as fp32 on this machine ({:.3f} ms against {:.3f} ms for a batch of "
                  "{}); --force runs it anyway",
                  name(config_.precision), trial.lower_seconds / trial.fp32_seconds, 1e3 * trial.lower_seconds,
                  1e3 * trial.fp32_seconds, config_.batch));
}

// ---- the two ways

// Batches are made ahead, by a thread of their own. The time of a batch is from asking for it to having its outputs.
Predictor::Pass Predictor::predict_all(const Model& model) {
  Pass pass;
  Prefetch prefetch(
      [this](std::size_t step, Batch& batch) { fill(batch, data_.examples, data_.normalisation, indices(step)); });
  prefetch.start(steps());
  std::size_t example = share_.first;
  for (std::size_t step = 0; step < steps(); ++step) {
    const TimePoint start = now();
    const Batch* batch = prefetch.next();
    const torch::Tensor outputs = model.forward(inputs_of(*batch, form_));
    pass.batch_seconds.push_back(seconds(now() - start));
    pass.examples += static_cast<double>(batch->size());
    const torch::Tensor answers = answers_of(*batch, form_);
    pass.tally += tally_of(loss_of(outputs, answers, form_), outputs, answers, form_);
    if (!config_.output.empty()) pass.lines += lines_of(outputs, answers, example);
    example += batch->size();
  }
  return pass;
}

// What a loop without paceline can do at best: f32, and all inputs lie ready as tensors before the clock starts.
Predictor::Pass Predictor::predict_plainly(const Model& model) {
  Pass pass;
  if (steps() == 0) return pass;
  const double bytes = 8.0 * config_.batch * static_cast<double>(form_.shape.pixels());
  const auto most = static_cast<std::size_t>(std::max(1.0, kPlainBytes / bytes));
  std::vector<torch::Tensor> inputs;
  Batch batch;
  for (std::size_t step = 0; step < std::min({steps(), kPlainBatches, most}); ++step) {
    fill(batch, data_.examples, data_.normalisation, indices(step));
    inputs.push_back(inputs_of(batch, form_).clone());
  }
  model.forward(inputs.front());
  for (const torch::Tensor& input : inputs) {
    const TimePoint start = now();
    model.forward(input);
    pass.batch_seconds.push_back(seconds(now() - start));
    pass.examples += static_cast<double>(input.size(0));
  }
  return pass;
}

Pace Predictor::gather_pace(const Pass& pass) {
  double sum = 0;
  for (const double each : pass.batch_seconds) sum += each;
  std::vector<double> rate = {sum > 0 ? pass.examples / sum : 0};
  world_.allreduce(view(rate), ReduceOp::sum, {.name = "rate"});
  const std::string own(reinterpret_cast<const char*>(pass.batch_seconds.data()),
                        pass.batch_seconds.size() * sizeof(double));
  Pace pace{.samples_per_s = rate[0]};
  for (const std::string& bytes : allgather(world_, own, {.name = "latencies"})) {
    std::vector<double> theirs(bytes.size() / sizeof(double));
    std::memcpy(theirs.data(), bytes.data(), theirs.size() * sizeof(double));
    pace.batch_seconds.insert(pace.batch_seconds.end(), theirs.begin(), theirs.end());
  }
  std::sort(pace.batch_seconds.begin(), pace.batch_seconds.end());
  return pace;
}

// ---- what is told

// One line for each prediction: of text, that is a character.
std::string Predictor::lines_of(const torch::Tensor& outputs, const torch::Tensor& answers, std::size_t first) const {
  std::string lines;
  std::size_t number = first * static_cast<std::size_t>(form_.predictions());
  if (form_.classes == 0) {
    const torch::Tensor values = outputs.reshape({-1}).contiguous();
    for (std::int64_t i = 0; i < values.size(0); ++i)
      lines += fmt::format("{},{},{},\n", number++, answers.data_ptr<float>()[i], values.data_ptr<float>()[i]);
    return lines;
  }
  const auto [probability, predicted] = outputs.reshape({-1, form_.classes}).softmax(1).max(1);
  for (std::int64_t i = 0; i < predicted.size(0); ++i) {
    lines += fmt::format("{},{},{},{:.6f}\n", number++, answers.data_ptr<std::int64_t>()[i],
                         predicted.data_ptr<std::int64_t>()[i], probability.data_ptr<float>()[i]);
  }
  return lines;
}

void Predictor::tell(const Tally& tally, const Pace& own, const Pace& plain, const Trial& trial) const {
  nlohmann::ordered_json json = {{"run", config_.run},
                                 {"model", trained_.model},
                                 {"data", data_.name},
                                 {"examples", data_.examples.size()},
                                 {"workers", job_.size()},
                                 {"batch", config_.batch},
                                 {"precision", name(config_.precision)}};
  std::string quality;
  if (form_.classes == 0) {
    json["rmse"] = std::sqrt(tally.mean_loss());
    quality = fmt::format("RMSE {:.4g}", std::sqrt(tally.mean_loss()));
  } else {
    json["accuracy"] = tally.accuracy();
    quality = fmt::format("accuracy {}", percent(tally.accuracy(), 2));
  }
  json["loss"] = tally.mean_loss();
  quality += fmt::format("  loss {:.4f}", tally.mean_loss());
  if (form_.kind == Kind::text) {
    json["perplexity"] = std::exp(tally.mean_loss());
    quality += fmt::format("  perplexity {:.3f}, per character", std::exp(tally.mean_loss()));
  }
  json["paceline"] = pace_json(own);
  json["plain"] = pace_json(plain);
  if (config_.precision != Precision::fp32)
    json["trial"] = {{"fp32_ms", 1e3 * trial.fp32_seconds}, {"lower_ms", 1e3 * trial.lower_seconds}};
  if (config_.json) return fmt::print("{}\n", json.dump());
  fmt::print("{} of {} on {}: {} examples; {} worker{} x batch {}, {}\n{}\n", trained_.model, config_.run, data_.name,
             with_thousands(static_cast<std::int64_t>(data_.examples.size())), job_.size(), job_.size() == 1 ? "" : "s",
             config_.batch, name(config_.precision), quality);
  if (config_.precision != Precision::fp32)
    fmt::print("tried on one batch: {} {:.3f} ms, fp32 {:.3f} ms\n", name(config_.precision), 1e3 * trial.lower_seconds,
               1e3 * trial.fp32_seconds);
  fmt::print("  {:<16}{:>12}{:>10}{:>10}{:>10}\n", "", "samples/s", "p50 ms", "p95 ms", "p99 ms");
  fmt::print("{}{}", pace_line("paceline", own), pace_line("plain LibTorch", plain));
  if (!config_.output.empty()) fmt::print("predictions: {}\n", config_.output);
}

void Predictor::run() {
  const torch::NoGradGuard no_grad;
  Model model = load_together();
  Trial trial;
  if (config_.precision != Precision::fp32) {
    trial = try_precision(model);
    require_gain(trial);
  }
  const Model plain_model = config_.precision == Precision::fp32 ? model : load(Precision::fp32);
  world_.barrier({.name = "plain"});
  const Pass plain = predict_plainly(plain_model);
  world_.barrier({.name = "predict"});
  const Pass pass = predict_all(model);
  std::vector<double> sums = {pass.tally.loss, pass.tally.correct, pass.tally.predictions};
  world_.allreduce(view(sums), ReduceOp::sum, {.name = "tally", .algorithm = Algorithm::ordered});
  const Pace own_pace = gather_pace(pass), plain_pace = gather_pace(plain);
  if (!config_.output.empty()) {
    std::string text = "example,label,predicted,probability\n";
    for (const std::string& lines : allgather(world_, pass.lines, {.name = "lines"})) text += lines;
    if (job_.rank() == 0) write_atomically(config_.output, text);
  }
  if (job_.rank() == 0) tell({sums[0], sums[1], sums[2]}, own_pace, plain_pace, trial);
  world_.barrier({.name = "end"});
}

void predict(Job& job, const PredictConfig& config) { Predictor(job, config).run(); }

}  // namespace paceline
