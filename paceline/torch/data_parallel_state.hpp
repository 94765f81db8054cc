// The inside of DataParallel.
//
// Note [A step]. Each parameter's hook fires when backward has added to its gradient. When all parameters of a bucket
// have fired, the bucket is complete; complete buckets are submitted in the order of their numbers, the same on every
// rank, so a complete bucket waits for its predecessors. finish() submits what is left (parameters that took no part),
// sums up on how many ranks each parameter was used, and waits. From its submission to the next step a bucket belongs
// to the exchange: peers write into it, and a hook that fires on one of its parameters is an Error.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "paceline/exchange/exchange.hpp"
#include "paceline/torch/autograd_hook.hpp"
#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/fused_optimizer.hpp"
#include "paceline/torch/parameter_arena.hpp"
#include "paceline/torch/replicas.hpp"

namespace paceline {

class DataParallel::State {
 public:
  State(Endpoint& endpoint, const Group& group, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
        std::string_view plan, DataParallelOptions options);
  ~State();

  void finish();
  void step();
  torch::Tensor step(const std::function<torch::Tensor()>& closure);
  double clip_grad_norm(double max_norm);
  void sync_buffers();
  void sync_optimizer();
  void check_replicas();

  int no_sync = 0;  // depth of nested guards
  std::int64_t steps = 0;
  Communicator user;  // what communicator() gives

  ParallelTimes times() const;
  std::size_t buckets() const { return buckets_.size(); }

 private:
  struct BucketState {
    Bucket bucket;
    std::vector<std::size_t> members;
    std::size_t missing = 0;  // members whose hook has not fired
  };
  struct Progress {  // of one parameter, in this step
    bool used = false;
    bool complete = false;
  };
  enum class Phase {
    gathering,  // backward may run
    finished,   // gradients are averages
  };
  // Whether the replicas are alike.
  enum class Doubt {
    none,
    here,    // a parameter had left the arena: who knows whether on all ranks alike
    agreed,  // all know that some rank had a doubt, and compare
  };

  void collect_parameters();
  void check_optimizer() const;
  void start_alike();
  void make_buckets(const std::vector<std::size_t>& order);
  void add_hooks();
  void on_gradient(std::size_t index);
  void on_sparse_gradient(std::size_t index);
  void check_finite(const TensorView& gradient, const std::string& name);
  [[noreturn]] void refuse_values(const std::string& name, int rank);
  void report_bad_value();
  [[noreturn]] void refuse_second_backward(std::size_t index) const;
  void submit_complete();
  void lend_during_backward();
  void settle();
  void settle_unused();
  void agree_on_use();
  void adopt_parameters();
  void update();
  void update_all();
  void update_own_share();
  void check_drift(std::size_t index, std::int64_t first, std::int64_t last);
  void update_elements(std::size_t index, std::int64_t first, std::int64_t last, bool publish);
  struct Piece {  // of a parameter, in elements
    std::size_t index;
    std::int64_t first;
    std::int64_t last;
  };
  std::vector<Piece> pieces_of(const BucketState& bucket, const Slice& slice) const;
  void record_update(TimePoint start, Duration waited_before);
  void run_stock_optimizer();
  void begin_round();
  void follow_order(const std::vector<std::size_t>& observed);

  // Constant after construction.
  Endpoint& endpoint_;
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  const DataParallelOptions options_;
  const Plan plan_;
  Communicator communicator_;  // of the gradients
  std::size_t bucket_bytes_ = 0;
  std::vector<NamedTensor> dense_;
  std::vector<NamedTensor> sparse_;
  std::vector<NamedTensor> frozen_;
  std::unique_ptr<ParameterArena> arena_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<FusedOptimizer> fused_;
  Arena flags_;  // see agree_on_use
  std::vector<std::unique_ptr<AutogradHook>> hooks_;

  std::vector<BucketState> buckets_;
  std::vector<std::size_t> bucket_of_;
  Phase phase_ = Phase::gathering;
  std::size_t next_bucket_ = 0;       // to submit
  std::vector<Progress> progress_;    // dense, then sparse parameters
  std::vector<bool> used_somewhere_;  // the same, after finish()
  // The order in which hooks fire, in the first step.
  std::optional<std::vector<std::size_t>> observed_ = std::vector<std::size_t>();
  bool state_is_shared_ = false;  // each rank has its own part of the optimizer's state up to date
  Duration flag_time_{};
  Duration update_time_{};
  Duration waited_at_start_{};
  Doubt doubt_ = Doubt::none;
};

}  // namespace paceline
