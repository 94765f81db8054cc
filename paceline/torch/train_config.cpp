#include "paceline/torch/train_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "paceline/core/error.hpp"
#include "paceline/data/augment.hpp"
#include "paceline/data/deal.hpp"
#include "paceline/data/split.hpp"
#include "paceline/exchange/sites.hpp"
#include "paceline/torch/handicap.hpp"
#include "paceline/torch/model_spec.hpp"
#include "paceline/torch/noise_spec.hpp"
#include "paceline/torch/optimizer_spec.hpp"
#include "paceline/torch/rate_spec.hpp"

namespace paceline {
namespace {

double number(const std::string& text, std::string_view part) {
  double value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc{} || end != part.data() + part.size() || !std::isfinite(value))
    throw Error(Code::invalid, fmt::format("'{}' in '{}' is not a number", part, text));
  return value;
}

void require_known(const char* what, const std::string& word, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
  throw Error(Code::invalid, fmt::format("there is no {} '{}'; there are {}", what, word, fmt::join(words, ", ")));
}

void require_finite(const char* option, double value) {
  if (!std::isfinite(value)) throw Error(Code::invalid, fmt::format("{} takes a number, not {}", option, value));
}

// As many as the steps need; or, of small sets, more passes than of large ones.
int default_epochs(const TrainConfig& config, std::size_t samples) {
  constexpr double kSteps = 400;
  const double per_epoch = static_cast<double>(steps_per_epoch(config, samples));
  if (config.steps > 0) return static_cast<int>(std::ceil(static_cast<double>(config.steps) / per_epoch));
  return static_cast<int>(std::clamp(std::ceil(kSteps / per_epoch), 3.0, 100.0));
}

// In how many parts the workers' batches go through their models, together.
std::int64_t parts_of_step(const TrainConfig& config, std::size_t samples) {
  const std::int64_t of_worker = (config.global_batch(samples) + config.workers - 1) / config.workers;
  return config.workers * ((of_worker + config.micro_batch - 1) / config.micro_batch);
}

// The theorems are about plain SGD in which one update follows the other.
void check_theory(const TrainConfig& config) {
  const auto refuse = [](const char* why) { throw Error(Code::invalid, why); };
  const When when = config.plan.timing();
  if (parse_model(config.model).family != "softmax")
    refuse("--theory is about convex losses: it goes with --model softmax");
  if (config.plan.route() != Where::server || (when != When::bsp && when != When::ssp && when != When::essp))
    refuse("--theory needs a bound on staleness: --where server:N with --when bsp, ssp:S or essp:S");
  if (config.optimizer != "sgd" || config.weight_decay > 0 || config.clip > 0)
    refuse("--theory is about plain SGD: --optimizer sgd, without --weight-decay and --clip");
  if (config.resume) refuse("--theory counts the regret from the first step, so that it does not go with --resume");
}

// What each does alone, but not with the other.
void refuse_together(const TrainConfig& config) {
  const bool looks = !config.noise.empty() || config.gradient_statistics;
  const bool delayed = config.plan.delay() > 0;
  const auto refuse = [](const char* why) { throw Error(Code::invalid, why); };
  if (looks && delayed)
    refuse("--noise and --gradient-statistics look at the gradient of this step, when=delayed applies an earlier one");
  if (config.online > 0 && delayed)
    refuse(
        "--online predicts with the old model what arrives while a sum travels, so that no gradient is late; "
        "when=delayed makes them late");
  if (looks && config.plan.parameters_meet())
    refuse(
        "--noise and --gradient-statistics look at the gradient of all workers, which never meets in this plan; use "
        "--when bsp --where allreduce");
  if (config.online > 0 && config.plan.parameters_meet())
    refuse("--online counts what arrives while a sum of gradients travels; use --when bsp --where allreduce");
  if (config.online > 0 && config.shard != "iid")
    refuse("--online gives each worker a part of the stream as it comes: it goes with --shard iid only");
  if (config.post_local > 0 && config.plan.timing() != When::local)
    refuse("--post-local says after how many epochs --when local:K begins; give that too, as in --when local:8");
  if (!config.servers_on.empty() && config.plan.route() != Where::server)
    refuse("--servers-on says where the servers of --where server:N run; give that too, as in --where server:2");
  if (config.online > 0 && looks) refuse("--online goes with neither --noise nor --gradient-statistics");
  if (config.online > 0 && config.batch == kWholeSet)
    refuse("--online takes a stream, of which --batch all has no end");
  if (config.online > 0 && config.resume)
    refuse("a stream cannot be resumed: --online and --resume exclude each other");
}

void check_sites_of(const TrainConfig& config) {
  const auto refuse = [](const char* why) { throw Error(Code::invalid, why); };
  if (config.between_sites.empty()) {
    if (!config.sites.empty())
      refuse(
          "--sites says which hosts are a site for --between-sites; give that too, as in --between-sites "
          "when=local:16");
    return check(config.plan, mix_choices(config));
  }
  const Plan between = parse_plan(config.between_sites);
  check_between_sites(config.plan, between, mix_choices(config));
  if (between.algorithm() == Algorithm::shm)
    refuse("between sites, which are on different hosts, there is no shared memory; use where=allreduce");
  check_sites(config.sites);
  if (!config.noise.empty() || config.gradient_statistics)
    refuse(
        "--noise and --gradient-statistics look at the gradient of all workers, which meets inside sites only; leave "
        "--between-sites out");
  if (config.online > 0)
    refuse("--online counts what arrives while a sum of all workers travels; leave --between-sites out");
}

// What a model whose rows live on servers cannot do, at least not yet.
void refuse_for_rows(const TrainConfig& config) {
  const ModelSpec model = parse_model(config.model);
  if (!keeps_rows_on_servers(model)) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid, fmt::format("{} {}", model.text(), why));
  };
  if (config.plan.route() != Where::server)
    refuse(
        fmt::format("keeps its rows in tables of servers, which --where {} does not have; use --where server:N with "
                    "--when bsp, ssp:S, essp:S, async or softsync:K",
                    config.plan.where));
  if (!config.init.empty()) refuse("begins with rows that servers draw by --seed; --init has no say in them");
  if (config.clip > 0)
    refuse("sends the gradients of its rows while backward goes on, before --clip could know their norm");
  if (config.precision != "fp32") refuse("has rows of fp32, and computes in fp32; leave --precision out");
  if (config.sharpness > 0) refuse("has rows on servers, which --sharpness could not move; leave it out");
}

}  // namespace

std::int64_t TrainConfig::global_batch(std::size_t samples) const {
  return batch == kWholeSet ? static_cast<std::int64_t>(samples) : std::int64_t{batch} * workers;
}

std::int64_t steps_per_epoch(const TrainConfig& config, std::size_t samples) {
  const std::int64_t slice = config.global_batch(samples);
  return (static_cast<std::int64_t>(samples) + slice - 1) / slice;
}

ModelOptions model_options(const TrainConfig& config) {
  return {.ghost_batch = config.ghost_batch, .checkpoint_activations = config.checkpoint_activations};
}

MixChoices mix_choices(const TrainConfig& config) {
  return {.slow_momentum = config.slow_momentum,
          .participate = config.participate,
          .seed = config.seed,
          .apply = parse_apply(config.apply),
          .divide_by_staleness = config.divide_by_staleness,
          .compensation = config.compensation,
          .push_every = config.push_every,
          .fetch_every = config.fetch_every};
}

std::vector<std::string> training_precisions() { return {"fp32", "bf16", "auto"}; }

std::string Target::text() const {
  return fmt::format("{}={}", metric == Metric::accuracy ? "accuracy" : "loss", value);
}

Target parse_target(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string metric = text.substr(0, equals);
  if (equals == std::string::npos || (metric != "accuracy" && metric != "loss"))
    throw Error(Code::invalid, fmt::format("--until takes accuracy=X or loss=X, not '{}'", text));
  Target target{.metric = metric == "loss" ? Target::Metric::loss : Target::Metric::accuracy};
  const bool percent = text.ends_with('%');
  std::string_view value = std::string_view(text).substr(equals + 1);
  if (percent) value.remove_suffix(1);
  target.value = number(text, value) / (percent ? 100 : 1);
  if (target.metric == Target::Metric::accuracy && (target.value <= 0 || target.value > 1))
    throw Error(Code::invalid,
                fmt::format("an accuracy lies between 0 and 1 (or is 90%), in '--until {}' it does not", text));
  return target;
}

int parse_batch(const std::string& text) {
  if (text == "all") return kWholeSet;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > 1 << 30)
    throw Error(Code::invalid, fmt::format("--batch takes a number from 1 to {} or all, not '{}'", 1 << 30, text));
  return value;
}

std::string batch_text(int batch) { return batch == kWholeSet ? "all" : std::to_string(batch); }

double parse_share(const std::string& text) {
  const bool percent = text.ends_with('%');
  const double value =
      number(text, std::string_view(text).substr(0, text.size() - (percent ? 1 : 0))) / (percent ? 100 : 1);
  if (!(value > 0 && value < 1))
    throw Error(Code::invalid, fmt::format("a share lies between 0 and 1, as 10% or 0.1 does; '{}' does not", text));
  return value;
}

void check_words(const TrainConfig& config) try {
  parse_model(config.model);
  require_finite("--lr", config.lr);
  require_finite("--weight-decay", config.weight_decay);
  require_finite("--clip", config.clip);
  parse_optimizer(config.optimizer);
  require_known("precision", config.precision, training_precisions());
  require_known("policy for buffers", config.buffers, {"average", "rank0"});
  parse_schedule(config.schedule);
  parse_rate_scale(config.scale_lr);
  parse_augmentation(config.augment);
  require_fit(parse_model(config.model), model_options(config));
  if (!config.init.empty() && !std::filesystem::exists(config.init))
    throw Error(Code::invalid, fmt::format("--init: there is no file {}", config.init));
  if (!config.noise.empty()) parse_noise(config.noise);
  check(config.plan);
  check_sites_of(config);
  parse_deal(config.shard);
  parse_handicap(config.handicap);
  refuse_together(config);
  if (config.theory > 0) check_theory(config);
  refuse_for_rows(config);
  if (config.resume && config.out.empty()) throw Error(Code::invalid, "--resume needs --out with the run's folder");
  to_json(config).dump();
} catch (const nlohmann::json::exception&) {
  throw Error(Code::invalid, "a word of --data or --out is not UTF-8, and config.json could not hold it");
}

void resolve(TrainConfig& config, const DataSplit& data) {
  check_words(config);
  require_fit(parse_model(config.model), data.train.form());
  std::size_t samples = data.train.size();
  if (config.valid > 0) samples = hold_out(data.train, config.valid, config.seed).first.size();
  Sampler({.samples = samples, .batch = config.batch, .workers = config.workers, .seed = config.seed});  // throws
  if (config.theory > 0) config.schedule = "inverse-sqrt";
  if (config.theory > 0 && data.train.classes() == 0)
    throw Error(Code::invalid, "--theory is about softmax regression, and this data has no classes");
  if (config.lr == 0) config.lr = default_rate(parse_optimizer(config.optimizer).name);
  if (config.epochs == 0) config.epochs = default_epochs(config, samples);
  if (config.scale_epochs > 0) {
    const double times = static_cast<double>(config.global_batch(samples)) / static_cast<double>(config.scale_epochs);
    config.epochs = static_cast<int>(std::ceil(config.epochs * std::max(1.0, times)));
  }
  check_augmentation(parse_augmentation(config.augment), data.train.form());
  require_fit(parse_deal(config.shard), data.train.form());
  require_worker(parse_handicap(config.handicap), config.workers);
  if (!config.noise.empty())
    require_noise_fits(parse_noise(config.noise), config.global_batch(samples), parts_of_step(config, samples));
}

nlohmann::json identity_of(const TrainConfig& config, std::uint64_t data_fingerprint) {
  return {{"model", config.model}, {"optimizer", config.optimizer},        {"augment", config.augment},
          {"noise", config.noise}, {"data_fingerprint", data_fingerprint}, {"valid", config.valid},
          {"seed", config.seed}};
}

void require_same_run(const std::string& path, const nlohmann::json& state, const nlohmann::json& identity) {
  for (const auto& [key, mine] : identity.items()) {
    if (!state.is_object() || !state.contains(key))
      throw Error(Code::invalid, fmt::format("{} lacks what a resumed run needs: its {}", path, key));
    if (state.at(key) == mine) continue;
    throw Error(Code::invalid, fmt::format("{} was trained with {} {}, not {}; give the same or another --out", path,
                                           key, state.at(key).dump(), mine.dump()));
  }
}

namespace {

// Every key with its member, for writing and for reading.
template <class Config, class Visit>
void each_key(Config& c, const Visit& visit) {
  visit("model", c.model);
  visit("init", c.init);
  visit("data", c.data);
  visit("augment", c.augment);
  visit("workers", c.workers);
  visit("threads", c.threads);
  visit("batch", c.batch);
  visit("micro_batch", c.micro_batch);
  visit("epochs", c.epochs);
  visit("scale_epochs", c.scale_epochs);
  visit("steps", c.steps);
  visit("precision", c.precision);
  visit("ghost_batch", c.ghost_batch);
  visit("checkpoint_activations", c.checkpoint_activations);
  visit("optimizer", c.optimizer);
  visit("lr", c.lr);
  visit("scale_lr", c.scale_lr);
  visit("warmup", c.warmup);
  visit("weight_decay", c.weight_decay);
  visit("clip", c.clip);
  visit("schedule", c.schedule);
  visit("noise", c.noise);
  visit("gradient_statistics", c.gradient_statistics);
  visit("sharpness", c.sharpness);
  visit("theory", c.theory);
  visit("online", c.online);
  visit("buffers", c.buffers);
  visit("post_local", c.post_local);
  visit("slow_momentum", c.slow_momentum);
  visit("participate", c.participate);
  visit("apply", c.apply);
  visit("divide_by_staleness", c.divide_by_staleness);
  visit("compensation", c.compensation);
  visit("push_every", c.push_every);
  visit("fetch_every", c.fetch_every);
  visit("shard", c.shard);
  visit("handicap", c.handicap);
  visit("valid", c.valid);
  visit("until", c.until);
  visit("seed", c.seed);
  visit("plan", c.plan);
  visit("between_sites", c.between_sites);
  visit("sites", c.sites);
  visit("servers_on", c.servers_on);
  visit("bucket_bytes", c.bucket_bytes);
  visit("check_every", c.check_every);
  visit("out", c.out);
  visit("resume", c.resume);
  visit("keep", c.keep);
  visit("checkpoint_every", c.checkpoint_every);
  visit("json", c.json);
  visit("quiet", c.quiet);
}

template <class T>
nlohmann::json written(const T& value) {
  return value;
}
nlohmann::json written(const std::optional<Target>& target) { return target ? target->text() : ""; }
nlohmann::json written(const Plan& plan) { return plan.text(); }

template <class T>
void read(const nlohmann::json& json, T& value) {
  json.get_to(value);
}
void read(const nlohmann::json& json, std::optional<Target>& target) {
  if (const auto text = json.get<std::string>(); !text.empty()) target = parse_target(text);
}
void read(const nlohmann::json& json, Plan& plan) { plan = parse_plan(json.get<std::string>()); }

}  // namespace

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json json;
  each_key(config, [&](const char* key, const auto& value) { json[key] = written(value); });
  return json;
}

TrainConfig train_config_from(const nlohmann::json& json) try {
  TrainConfig config;
  std::size_t known = 0;
  each_key(config, [&](const char* key, auto& value) {
    if (!json.contains(key)) return;
    read(json.at(key), value);
    ++known;
  });
  if (known == json.size()) return config;
  const nlohmann::json mine = to_json(TrainConfig{});
  for (const auto& [key, value] : json.items()) {
    if (!mine.contains(key))
      throw Error(Code::invalid, fmt::format("the configuration of a training run has no '{}'", key));
  }
  throw Error(Code::invalid, "this is not the configuration of a training run: it is no object");
} catch (const nlohmann::json::exception& error) {
  throw Error(Code::invalid, fmt::format("this is not the configuration of a training run: {}", error.what()));
}

}  // namespace paceline
