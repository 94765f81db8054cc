// Steps that a rank makes on its own: Note [Alone] in data_parallel_state.hpp.
#include <fmt/format.h>

#include <utility>

#include "paceline/server/table.hpp"
#include "paceline/torch/data_parallel_state.hpp"
#include "paceline/torch/server_rule.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {

void DataParallel::State::check_choices() const {
  if (!sites_) check(plan_, options_.mixing);
  if (options_.local_after == 0) return;
  if (options_.local_after > 0 && plan_.timing() == When::local) return;
  throw Error(Code::invalid,
              fmt::format("local_after = {} is the number of steps before when=local:K begins; the plan is {}",
                          options_.local_after, plan_.text()));
}

void DataParallel::State::refuse_sparse() const {
  if (sparse_.empty() || !(plan_.parameters_meet() || sites_)) return;
  throw Error(Code::invalid,
              fmt::format("parameter '{}' has sparse gradients, which only plans take in which all gradients meet; use "
                          "when=bsp where=allreduce without sites, or make the embedding with sparse(false)",
                          sparse_.front().name));
}

void DataParallel::State::refuse_closure() const {
  if (delay_ > 0) {
    throw Error(
        Code::invalid,
        "step(closure) needs the gradient of the parameters as they are, which when=delayed applies only later; "
        "use when=bsp, or step() with an optimizer that takes no closure");
  }
  if (!alone() || plan_.timing() == When::local) return;
  throw Error(
      Code::invalid,
      fmt::format("step(closure) needs parameters that only the optimizer changes from step to step, and {} mixes "
                  "them in every step; use when=local:8 where=allreduce, or when=bsp where=allreduce",
                  plan_.text()));
}

// A collective call. The order in which gradients become ready matters no more.
void DataParallel::State::start_mixing() {
  observed_.reset();
  bring_state_everywhere();
  mixer_ = sites_ ? make_mixer(all_, *sites_, parse_plan(options_.between_sites.plan), mixer_options())
                  : make_mixer(all_, plan_, mixer_options());
}

MixerOptions DataParallel::State::mixer_options() {
  return {.parameters = arena_->parameter_ranges(),
          .choices = options_.mixing,
          .learning_rate = [this] { return optimizer_.param_groups()[0].options().get_lr(); },
          .trace = options_.trace,
          .gradients = arena_->gradient_ranges(),
          .servers = servers_,
          .rule = server_rule(optimizer_)};
}

Session& DataParallel::State::session() const {
  if (Session* const found = mixer_ ? mixer_->session() : nullptr) return *found;
  throw Error(Code::invalid,
              fmt::format("tables are kept by servers, and the plan {} has none; use where=server:N", plan_.text()));
}

std::vector<Table> DataParallel::State::server_tables() const {
  return mixer_ ? mixer_->tables() : std::vector<Table>();
}

void DataParallel::State::set_steps(std::int64_t made) {
  steps = made;
  checked_ = made;
  if (alone() && mixer_ == nullptr) start_mixing();
}

void DataParallel::State::on_own_gradient(std::size_t index) {
  arena_->adopt_gradient(index);
  if (fused_ == nullptr || mixer_->takes_gradients())
    check_finite(arena_->gradient_view(index), arena_->name(index));  // otherwise in the update
  progress_[index].used = true;
  mixer_->progress();
}

void DataParallel::State::finish_alone() {
  adopt_parameters();
  settle_unused();
  for (std::size_t i = 0; i < progress_.size(); ++i) used_somewhere_[i] = progress_[i].used;
  due_.emplace().step = steps;
  phase_ = Phase::finished;
}

void DataParallel::State::step_alone() {
  if (takes_part()) {
    finish();
    adopt_parameters();
    if (!mixer_->takes_gradients()) update();
  }
  end_alone();
}

void DataParallel::State::end_alone() {
  doubt_ = Doubt::none;  // ranks differ anyway until they meet
  mixer_->end_update(steps);
  begin_round();
}

// Ranks, or sites, have made different numbers of steps; afterwards they count on from the highest.
void DataParallel::State::join_alone() {
  mixer_->join();
  std::vector<std::int64_t> most = {steps};
  all_.allreduce(view(most), ReduceOp::max, {.name = "steps"});
  steps = most[0];
  if (check_is_due()) check_replicas();
}

}  // namespace paceline
