// The inside of train().
//
// Note [Steps and agreement]. All ranks add up a small vector now and then: what the loss and accuracy of the steps
// since the last time were, whether a signal has come to any of them, how long each has waited. So all ranks see the
// same numbers, and decide alike: to stop, to save, to go on. How often depends on who waits for whom in the plan:
// - all: whenever all have met, which in most plans is after each step;
// - neighbours: every some steps a sum is begun, and waited for when the next one is: all ranks learn of it after the
// same
//   step, and nobody waits for ranks that are a few steps behind;
// - none: some times a second a sum is begun and looked at in passing, so that ranks learn of it after different steps.
//   Before they do anything together (an epoch's end, a checkpoint, the end) settle_agreement() has each begin as many
//   sums as the others, and go on from the position of the one that is least far.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/data/loader.hpp"
#include "paceline/exchange/sites.hpp"
#include "paceline/record/checkpoint_files.hpp"
#include "paceline/record/ranking.hpp"
#include "paceline/torch/convex_theory.hpp"
#include "paceline/torch/covariance_noise.hpp"
#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/gradient_statistics.hpp"
#include "paceline/torch/handicap.hpp"
#include "paceline/torch/learning_rate.hpp"
#include "paceline/torch/model_tables.hpp"
#include "paceline/torch/models.hpp"
#include "paceline/torch/online_minibatch.hpp"
#include "paceline/torch/precision.hpp"
#include "paceline/torch/run_journal.hpp"
#include "paceline/torch/stop_signals.hpp"
#include "paceline/torch/task.hpp"
#include "paceline/torch/trainer.hpp"

namespace paceline {

class Trainer {
 public:
  // `sites`: where the workers are, if there is a plan between sites. `voice`: rank 0's.
  Trainer(Job& job, const TrainConfig& config, std::optional<Sites> sites, DataSplit data, RunJournal::Voice voice);
  // Returns the number of the signal that has ended it, 0 if none has.
  int run();

 private:
  // Bytes that all workers have sent.
  struct Sent {
    std::uint64_t all = 0;
    std::uint64_t between_hosts = 0;  // of these
    std::uint64_t between_sites = 0;  // of these
  };
  // Where the run stands; what a checkpoint carries beside tensors.
  struct Position {
    int epoch = 0;
    std::size_t consumed = 0;  // examples of this epoch, all workers
    std::int64_t step = 0;
    double seconds = 0;  // of training
    Tally tally;         // of this epoch
    Sent before = {};    // by earlier runs
  };
  // What is measured without the first steps, in which memory is still being touched for the first time.
  struct Rate {
    double examples = 0;
    double seconds = 0;
    double per_second() const { return seconds > 0 ? examples / seconds : 0; }
  };
  // What this rank has done since it began the last agreement.
  struct Unagreed {
    Tally tally;
    double seconds = 0;
    Rate timed;  // without the first steps
    std::int64_t steps = 0;
  };

  void make_model();
  Checkpoint newest_checkpoint();
  void restore(const Checkpoint& checkpoint);
  std::vector<Table> saved_tables();
  void restore_rows();
  nlohmann::json state() const;
  void go_to(const nlohmann::json& state);
  void share_position();
  void introduce();
  double try_bf16();
  void choose_precision(double bf16_over_fp32);
  int hosts() const;

  void study_together();
  double base_rate() const;
  void watch_gradients();
  TheoryFigures theory_figures() const;
  Score score() const { return data_.train.classes() == 0 ? Score::rmse : Score::accuracy; }

  void train_epoch();
  void train_online_epoch();
  void fill_from_stream(Batch& batch, const InputRange& inputs);
  Tally predict_passed(const InputRange& inputs);
  void let_inputs_pass(const Tally& learned, Duration computed);
  void look_at_gradient();
  void clip();
  void drain();
  void train_step(const Batch& batch);
  Tally forward_backward(const Batch& batch);
  enum class Part { earlier, last };  // of a step's batch
  Tally forward_backward(const torch::Tensor& inputs, const torch::Tensor& answers, double weight,
                         Part part = Part::last);
  void prefetch_rows();
  void count_step(const Tally& tally);
  void agree_now_and_then();
  void agree();
  std::size_t agreement_bytes() const;
  void begin_agreement();
  void end_agreement();
  void settle_agreement();
  void go_back_to_the_last();
  void lag(TimePoint start);
  void tell_progress();
  void end_epoch();
  // `scored`: where the scores of this rank's part go, of two classes, if anybody wants them.
  Tally evaluate(const Dataset& data, std::vector<ScoredExample>* scored = nullptr);
  void evaluate_test(EpochMetrics& metrics);
  std::vector<WorkerTime> gather_times();
  Sent sent();
  bool counts_hosts() const;
  std::optional<StalenessFigures> gather_staleness();
  void save_checkpoint();
  void save_results();
  void finish();
  bool stopping() const { return !stop_reason_.empty(); }
  TimePoint now() const { return job_.endpoint().clock().now(); }
  void record(Activity activity, TimePoint start, Duration length);
  std::int64_t total_steps() const;

  Job& job_;
  const TrainConfig config_;
  const std::optional<Sites> sites_;
  StopSignals signals_;
  DataSplit data_;
  std::optional<Dataset> valid_;
  Model model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  CheckpointFiles checkpoints_;
  Trace trace_;
  Position at_;
  std::optional<ConvexStudy> theory_;
  std::unique_ptr<LearningRate> rate_;
  Precision precision_ = Precision::fp32;
  std::unique_ptr<RunJournal> journal_;
  std::unique_ptr<Loader> loader_;
  const Handicap handicap_;
  Arena agreement_;  // what is added up
  std::unique_ptr<DataParallel> parallel_;
  std::optional<ModelTables::Opened> tables_;  // of a model that has rows on servers
  Communicator agreements_;
  Handle agreeing_;          // an agreement under way, if
  bool under_way_ = false;   // there is one
  std::int64_t agreed_ = 0;  // how many were begun
  TimePoint last_agreement_{};
  Unagreed own_;
  std::vector<std::string> started_anew_;  // parameters for which --init had none that fit
  std::unique_ptr<CovarianceNoise> noise_;
  std::unique_ptr<GradientStatistics> statistics_;
  std::unique_ptr<GradientParts> parts_;  // if one of these looks at them
  std::unique_ptr<OnlineMinibatch> online_;
  Sampler stream_;  // the order of the examples in it
  int stream_epoch_ = -1;

  std::string stop_reason_;
  int stop_signal_ = 0;
  WorkerTime times_;  // of this epoch
  Rate epoch_rate_;
  Rate run_rate_;
  TimePoint step_began_{};
  std::int64_t steps_here_ = 0;  // in this process
  double compute_seconds_ = 0;   // likewise, of this rank
  std::vector<float> wait_shares_;
  Tally point_;          // since the last point of the curves
  Tally whole_;          // of this run
  Staleness reads_;      // of all workers, when it was last gathered
  double farthest_ = 0;  // from zero, of the parameters with which a step began; with --theory
  Rate point_rate_;
  std::int64_t saved_step_ = -1;
  std::vector<std::string> generators_;  // restored, by rank
  std::string restored_rows_;            // the file of what servers kept; rank 0
  bool forgotten_ = false;               // what servers' optimizers remembered is not in the checkpoint
  EpochMetrics last_;
};

}  // namespace paceline
