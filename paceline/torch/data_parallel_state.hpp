// The inside of DataParallel.
//
// Note [A step]. Each parameter's hook fires when backward has added to its gradient. When all parameters of a bucket
// have fired, the bucket is complete; complete buckets are submitted in the order of their numbers, the same on every
// rank, so a complete bucket waits for its predecessors. finish() submits what is left (parameters that took no part),
// sums up on how many ranks each parameter was used, and waits. From its submission to the next step a bucket belongs
// to the exchange: peers write into it, and a hook that fires on one of its parameters is an Error.
//
// Note [Rounds]. The gradients of one step are a round. It departs when the last bucket has been submitted, travels,
// and arrives when it has been waited for; then it is due and is applied. With when=bsp all that happens in one step.
// With when=delayed:D a round departs in step t and arrives in step t+D, so D+1 rounds have memory of their own
// (generations of the ParameterArena). .grad shows the round that backward fills, from finish() or step() on the one
// that is due, whose memory backward then fills next: nothing is copied.
//
// Note [Alone]. In plans whose parameters meet, a step is this rank's own: hooks only bring gradients home, step()
// updates by them at once, and a Mixer then lets parameters meet. Nothing is submitted, and no round departs. With
// local_after, steps before that are rounds as above, and those after it alone; all ranks change over after the same
// step.
//
// Note [Sites]. With a plan between sites steps are rounds among the ranks of a site, which knows nothing of the
// others: flags, clipping, the optimizer's state and comparisons because of a doubt are the site's own. After each step
// a Mixer may let the sites' parameters meet. They lie in the same order everywhere, so that gradients are laid out
// once for all and not in the order that is observed: a site without batches would never observe one.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "paceline/exchange/exchange.hpp"
#include "paceline/exchange/mixer.hpp"
#include "paceline/exchange/sites.hpp"
#include "paceline/torch/autograd_hook.hpp"
#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/fused_optimizer.hpp"
#include "paceline/torch/parameter_arena.hpp"
#include "paceline/torch/replicas.hpp"

namespace paceline {

class DataParallel::State {
 public:
  State(Endpoint& endpoint, const Group& group, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
        std::string_view plan, DataParallelOptions options, std::vector<Rank> servers);
  ~State();

  using Between = std::function<void()>;
  void finish();
  void step();
  torch::Tensor step(const std::function<torch::Tensor()>& closure);
  double clip_grad_norm(double max_norm);
  void drain(const Between& between);
  void join(const Between& between);
  void lend();
  void sync_buffers();
  void sync_optimizer();
  void check_replicas();
  void set_steps(std::int64_t made);
  bool met() const { return mixer_ == nullptr || mixer_->agreed(); }
  bool takes_part() { return mixer_ == nullptr || mixer_->takes_part(steps); }

  int no_sync = 0;  // depth of nested guards
  std::int64_t steps = 0;
  Communicator user;  // what communicator() gives

  std::optional<ServerStatistics> server_statistics() { return mixer_ ? mixer_->statistics() : std::nullopt; }
  void note_loss(double loss) {
    if (mixer_) mixer_->note_loss(loss);
  }
  std::vector<std::string> take_remarks() { return mixer_ ? mixer_->take_remarks() : std::vector<std::string>(); }
  Session& session() const;
  std::vector<Table> server_tables() const;
  ParallelTimes times() const;
  std::size_t buckets() const { return buckets_.size(); }
  std::size_t delay_bytes() const { return delay_ * arena_->generation_bytes(); }

 private:
  static constexpr std::size_t kMoreFlags = 2;  // see announce_use
  struct BucketState {
    Bucket bucket;
    std::vector<std::size_t> members;
    std::size_t missing = 0;  // members whose hook has not fired
  };
  struct Progress {  // of one parameter, in this step
    bool used = false;
    bool complete = false;
  };
  struct Round {  // see Note [Rounds]
    std::size_t generation = 0;
    std::int64_t step = 0;  // that its gradients were computed in, from 0
    std::span<float> flags = {};
    Handle use = {};                         // the sum of the flags
    std::vector<torch::Tensor> sparse = {};  // gradients outside the arena, not averaged yet
    bool whole = false;                      // the averages are on all ranks already, not only in own slices
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

  // See Note [Alone].
  bool alone() const { return plan_.parameters_meet() && steps >= options_.local_after; }
  void check_choices() const;
  void refuse_sparse() const;
  void start_mixing();
  void on_own_gradient(std::size_t index);
  void finish_alone();
  void step_alone();
  void end_alone();
  void join_alone();
  void refuse_closure() const;

  // See Note [Sites].
  std::optional<Sites> find_sites(const Group& group) const;
  std::optional<Communicator> own_site();
  MixerOptions mixer_options();
  // Of a rank of communicator_: breaks the group of all.
  [[noreturn]] void give_up(const std::string& reason, int rank);
  void compare_replicas(Communicator& among);

  void collect_parameters();
  void check_optimizer() const;
  void start_alike();
  void make_buckets(const std::vector<std::size_t>& order);
  void add_hooks();
  void on_gradient(std::size_t index);
  void on_sparse_gradient(std::size_t index);
  void check_finite(const TensorView& gradient, const std::string& name);
  [[noreturn]] void refuse_values(const std::string& name, int rank, std::int64_t step);
  void report_bad_value();
  [[noreturn]] void refuse_second_backward(std::size_t index) const;
  void submit_complete();
  void lend_during_backward();
  void settle();
  void settle_unused();
  void depart();
  void await_due();
  void arrive();
  void turn_to(std::size_t generation);
  void announce_use(Round& round);
  void learn_use(Round& round);
  float active_in(const Round& round) const { return round.flags[progress_.size() + 1]; }
  int divisor_of(const Round& round) const;
  void weigh(const Round& round);
  void bring_everywhere();
  void bring_all_rounds_everywhere();
  void apply();
  bool shadow_step(const Between& between);
  void contribute_nothing();
  void refuse_unfinished(const char* call) const;
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
  void bring_state_everywhere();
  bool check_is_due() const;
  void end_step();
  void begin_round();
  void forget_progress();
  void follow_order(const std::vector<std::size_t>& observed);

  // Constant after construction.
  Endpoint& endpoint_;
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  const DataParallelOptions options_;
  const Plan plan_;
  const std::vector<Rank> servers_;
  const std::size_t delay_;  // steps between a round's departure and its arrival
  Communicator all_;         // of all ranks
  const std::optional<Sites> sites_;
  std::optional<Communicator> site_;  // of this rank's site, if there are some
  Communicator& communicator_;        // of the gradients: of the site, or of all
  std::size_t bucket_bytes_ = 0;
  std::vector<NamedTensor> dense_;
  std::vector<NamedTensor> sparse_;
  std::vector<NamedTensor> frozen_;
  std::unique_ptr<ParameterArena> arena_;
  std::unique_ptr<Exchange> exchange_;  // nullptr if gradients never meet
  std::unique_ptr<FusedOptimizer> fused_;
  Arena flags_;  // of each generation, see announce_use
  std::vector<std::unique_ptr<AutogradHook>> hooks_;

  std::unique_ptr<Mixer> mixer_;  // from the first step on that is made alone; with sites from the start
  std::int64_t checked_ = 0;      // the step after which replicas were compared last

  std::vector<BucketState> buckets_;
  std::vector<std::size_t> bucket_of_;
  Phase phase_ = Phase::gathering;
  std::deque<Round> rounds_;          // on their way, the oldest first
  std::optional<Round> due_;          // the one that is to be applied
  bool out_of_batches_ = false;       // in join()
  std::size_t next_bucket_ = 0;       // to submit
  std::vector<Progress> progress_;    // dense, then sparse parameters
  std::vector<bool> used_somewhere_;  // the same, in the round that is due
  // The order in which hooks fire, in the first step.
  std::optional<std::vector<std::size_t>> observed_ = std::vector<std::size_t>();
  bool state_is_shared_ = false;  // each rank has its own part of the optimizer's state up to date
  Duration flag_time_{};
  Duration update_time_{};
  Duration waited_at_start_{};
  Doubt doubt_ = Doubt::none;
};

}  // namespace paceline
