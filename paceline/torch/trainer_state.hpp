// The inside of train().
//
// Note [Steps and agreement]. After each step all ranks add up a small vector: what the step's loss and accuracy were,
// whether a signal has come to any of them, how long each has waited. So all ranks see the same numbers after the same
// step, and decide alike: to stop, to save, to go on.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/data/loader.hpp"
#include "paceline/record/checkpoint_files.hpp"
#include "paceline/torch/covariance_noise.hpp"
#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/gradient_statistics.hpp"
#include "paceline/torch/learning_rate.hpp"
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
  // `voice`: rank 0's.
  Trainer(Job& job, const TrainConfig& config, DataSplit data, RunJournal::Voice voice);
  // Returns the number of the signal that has ended it, 0 if none has.
  int run();

 private:
  // Where the run stands; what a checkpoint carries beside tensors.
  struct Position {
    int epoch = 0;
    std::size_t consumed = 0;  // examples of this epoch, all workers
    std::int64_t step = 0;
    double seconds = 0;              // of training
    Tally tally;                     // of this epoch
    std::uint64_t bytes_before = 0;  // sent by earlier runs
  };
  // What is measured without the first steps, in which memory is still being touched for the first time.
  struct Rate {
    double examples = 0;
    double seconds = 0;
    double per_second() const { return seconds > 0 ? examples / seconds : 0; }
  };

  void make_model();
  Checkpoint newest_checkpoint();
  void restore(const Checkpoint& checkpoint);
  nlohmann::json state() const;
  void go_to(const nlohmann::json& state);
  void share_position();
  void introduce();
  double try_bf16();
  void choose_precision(double bf16_over_fp32);
  int hosts() const;

  void watch_gradients();
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
  Tally forward_backward(const torch::Tensor& inputs, const torch::Tensor& answers, double weight);
  void agree(Tally& tally);
  void tell_progress();
  void end_epoch();
  Tally evaluate(const Dataset& data);
  std::vector<WorkerTime> gather_times();
  std::uint64_t bytes_sent();
  void save_checkpoint();
  void save_results();
  void finish();
  bool stopping() const { return !stop_reason_.empty(); }
  TimePoint now() const { return job_.endpoint().clock().now(); }
  void record(Activity activity, TimePoint start, Duration length);
  std::int64_t total_steps() const;

  Job& job_;
  const TrainConfig config_;
  StopSignals signals_;
  DataSplit data_;
  std::optional<Dataset> valid_;
  Model model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  CheckpointFiles checkpoints_;
  Trace trace_;
  Position at_;
  std::unique_ptr<LearningRate> rate_;
  Precision precision_ = Precision::fp32;
  std::unique_ptr<RunJournal> journal_;
  std::unique_ptr<Loader> loader_;
  Arena agreement_;
  std::unique_ptr<DataParallel> parallel_;
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
  Tally point_;  // since the last point of the curves
  Rate point_rate_;
  std::int64_t saved_step_ = -1;
  std::vector<std::string> generators_;  // restored, by rank
  EpochMetrics last_;
};

}  // namespace paceline
