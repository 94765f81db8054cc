// TrainConfig: everything that `paceline train` was asked for, as it goes to the workers and into config.json. Without
// torch, so that the command can check it before workers start.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "paceline/data/dataset.hpp"
#include "paceline/data/sampler.hpp"
#include "paceline/exchange/mix_choices.hpp"
#include "paceline/exchange/plan.hpp"
#include "paceline/torch/model_spec.hpp"

namespace paceline {

// --until accuracy=0.9
struct Target {
  enum class Metric { accuracy, loss };
  Metric metric = Metric::accuracy;
  double value = 0;

  bool reached(double accuracy, double loss) const {
    return metric == Metric::accuracy ? accuracy >= value : loss <= value;
  }
  std::string text() const;  // "accuracy=0.9"
};
Target parse_target(const std::string& text);  // Error{invalid}
int parse_batch(const std::string& text);      // "64" and "all", which is kWholeSet; Error{invalid}
std::string batch_text(int batch);
double parse_share(const std::string& text);  // "10%" and "0.1"; Error{invalid} unless above 0 and below 1

struct TrainConfig {
  std::string model = "cnn";
  std::string init = {};  // a file of weights to begin with
  std::string data = "fashion";
  std::string augment = "none";    // what is done to training images: flip, crop:N
  int workers = 1;                 // 0: as many as there are when they have met; rank 0 then settles the rest
  int threads = 1;                 // per worker; 0: each its part of the cores, likewise
  int batch = 64;                  // per worker; kWholeSet: all examples in one step
  int micro_batch = 1024;          // at most so many of them go through the model at once
  int epochs = 0;                  // 0: chosen by resolve
  std::int64_t scale_epochs = 0;   // epochs are those of this batch of all workers, more for a larger one; 0: as given
  std::int64_t steps = 0;          // 0: no limit
  std::string precision = "fp32";  // or bf16; auto: bf16 if that is quicker here
  int ghost_batch = 0;             // of batch norm; 0: all that go through at once
  bool checkpoint_activations = false;
  std::string optimizer = "momentum";
  double lr = 0;                  // 0: the optimizer's default, by resolve
  std::string scale_lr = "none";  // with the batch of all workers; resolve applies it
  std::int64_t warmup = 0;        // steps
  double weight_decay = 0;
  double clip = 0;  // 0: gradients are not clipped
  std::string schedule = "constant";
  std::string noise = {};            // fisher-diag:BATCH, fisher-trace:BATCH
  bool gradient_statistics = false;  // noise scale and diversity
  double sharpness = 0;              // of the end point: size of the box; 0: not measured
  double theory = 0;                 // radius of the ball in which bounds are computed; 0: they are not
  double online = 0;                 // inputs per second that arrive; 0: a data set, not a stream
  std::string buffers = "average";   // running statistics: or rank0's
  int post_local = 0;                // epochs in which gradients meet before when=local begins
  double slow_momentum = 0;          // of the averages of when=local
  double participate = 1;            // share of the workers in a round of when=local
  std::string apply = "auto";        // where=server: who applies updates
  bool divide_by_staleness = false;  // the same, of a gradient's rate
  double compensation = 0;           // the same, of its delay
  int push_every = 1;                // steps
  int fetch_every = 1;
  std::string shard = "iid";  // which examples each worker gets: by-label, dirichlet:A
  std::string handicap = {};  // random:FACTOR, fixed:RANK:FACTOR
  double valid = 0;           // share of the training set that is held out
  std::optional<Target> until = {};
  std::uint64_t seed = 1;
  Plan plan = {};
  std::string between_sites = {};  // the plan between sites; empty: there are none
  std::string sites = {};          // which hosts form them, see parse_sites; empty: each host is one
  std::string servers_on = {};     // hosts of where=server's processes, as a,b; empty: threads of the workers
  std::size_t bucket_bytes = 0;
  int check_every = 100;
  std::string out = {};
  bool resume = false;
  int keep = 3;
  std::int64_t checkpoint_every = 0;  // steps; 0: once per epoch
  bool json = false;
  bool quiet = false;

  // Of all workers, in a full step.
  std::int64_t global_batch(std::size_t samples) const;
};

nlohmann::ordered_json to_json(const TrainConfig& config);
// What is missing is as in TrainConfig{}; a key that it does not have is Error{invalid}.
TrainConfig train_config_from(const nlohmann::json& json);

// Refuses what cannot be done with any data: Error{invalid}.
void check_words(const TrainConfig& config);
// Fills in what was left open and refuses what cannot be done with this data: Error{invalid}.
void resolve(TrainConfig& config, const DataSplit& data);

// Of a set of so many examples.
std::int64_t steps_per_epoch(const TrainConfig& config, std::size_t samples);

// What must be the same when a run goes on from a checkpoint; a part of the checkpoint's state.
nlohmann::json identity_of(const TrainConfig& config, std::uint64_t data_fingerprint);
// Error{invalid} naming the checkpoint and what differs.
void require_same_run(const std::string& path, const nlohmann::json& state, const nlohmann::json& identity);

ModelOptions model_options(const TrainConfig& config);
MixChoices mix_choices(const TrainConfig& config);

// For help and errors.
std::vector<std::string> training_precisions();

}  // namespace paceline
