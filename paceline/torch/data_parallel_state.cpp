#include "paceline/torch/data_parallel_state.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <set>
#include <utility>

#include "paceline/core/finite.hpp"
#include "paceline/torch/bucket_plan.hpp"
#include "paceline/torch/sparse_gradients.hpp"
#include "paceline/torch/tensor_collectives.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {
namespace {

CommunicatorOptions timed(CommunicatorOptions options) {
  options.time_waits = true;
  return options;
}

Plan checked_plan(std::string_view text) {
  Plan plan = parse_plan(text);
  check(plan);
  return plan;
}

// Backward produces gradients from the last layer to the first.
std::vector<std::size_t> reversed(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

}  // namespace

DataParallel::State::State(Endpoint& endpoint, const Group& group, torch::nn::Module& model,
                           torch::optim::Optimizer& optimizer, std::string_view plan, DataParallelOptions options,
                           std::vector<Rank> servers)
    : user(Communicator::beside(endpoint, group, "DataParallel::communicator", options.communicator)),
      endpoint_(endpoint),
      model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      plan_(checked_plan(plan)),
      servers_(std::move(servers)),
      delay_(static_cast<std::size_t>(plan_.delay())),
      all_(Communicator::beside(endpoint, group, "DataParallel", timed(options_.communicator))),
      sites_(find_sites(group)),
      site_(own_site()),
      communicator_(site_ ? *site_ : all_) {
  check_choices();
  compare_models(all_, model_, optimizer_);
  collect_parameters();
  refuse_sparse();
  check_optimizer();
  std::vector<ArenaTensor> tensors;
  for (const NamedTensor& item : dense_) tensors.push_back({item.name, item.tensor});
  arena_ = std::make_unique<ParameterArena>(endpoint_, std::move(tensors), reversed(dense_.size()), delay_ + 1);
  start_alike();
  bucket_bytes_ = options_.bucket_bytes > 0 ? options_.bucket_bytes : bucket_bytes_for(communicator_, plan_);
  if (!alone()) {
    Plan gradients = plan_;
    if (plan_.parameters_meet()) gradients.when = "bsp";  // at first
    exchange_ = make_exchange(communicator_, gradients,
                              {.gradients = arena_->gradient_ranges_of_all_generations(),
                               .parameters = arena_->parameter_ranges(),
                               .check_finite = options_.check_finite,
                               .trace = options_.trace});
  }
  if (options_.fuse) fused_ = FusedOptimizer::of(optimizer_, *arena_);
  const std::size_t parameters = dense_.size() + sparse_.size();
  progress_.resize(parameters);
  used_somewhere_.resize(parameters);
  flags_ = endpoint_.allocate((delay_ + 1) * (parameters + kMoreFlags) * sizeof(float));
  make_buckets(reversed(dense_.size()));
  if (alone() || sites_) start_mixing();
  add_hooks();
  waited_at_start_ = communicator_.waited();
}

// Rounds that nobody has drained are lost; but who gave them up before they have arrived would break the last steps of
// others. After an Error they are given up, so that the others learn of it.
DataParallel::State::~State() {
  if (exchange_) exchange_->recall();
  if (rounds_.empty() || std::uncaught_exceptions() > 0) return;
  try {
    // Throws at once if something has failed before: the others' memory may be gone then.
    communicator_.barrier({.name = "all have ended"});
    exchange_->finish();
    for (Round& round : rounds_) round.use.wait();
  } catch (const Error&) {
    // Whoever has failed says so itself.
  }
}

// ---- construction

void DataParallel::State::collect_parameters() {
  const std::set<const void*> sparse = sparse_parameters(model_);
  for (NamedTensor& item : distinct_parameters(model_)) {
    if (!item.tensor.device().is_cpu()) {
      throw Error(Code::invalid, fmt::format("parameter '{}' is on {}; this build of paceline trains on CPUs only",
                                             item.name, item.tensor.device().str()));
    }
    auto& kind = !item.tensor.requires_grad()                         ? frozen_
                 : sparse.contains(item.tensor.unsafeGetTensorImpl()) ? sparse_
                                                                      : dense_;
    kind.push_back(std::move(item));
  }
}

void DataParallel::State::check_optimizer() const {
  std::set<const void*> known;
  for (const auto* kind : {&dense_, &sparse_, &frozen_}) {
    for (const NamedTensor& item : *kind) known.insert(item.tensor.unsafeGetTensorImpl());
  }
  for (const auto& group : optimizer_.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (known.contains(parameter.unsafeGetTensorImpl())) continue;
      throw Error(Code::invalid,
                  fmt::format("the optimizer holds a tensor of {} elements that is not a parameter of the "
                              "model; make the optimizer from model->parameters()",
                              parameter.numel()));
    }
  }
}

void DataParallel::State::start_alike() {
  for (const TensorView& range : arena_->parameter_ranges()) all_.broadcast(range, 0, {.name = "parameters"});
  for (auto* kind : {&sparse_, &frozen_}) {
    for (NamedTensor& item : *kind) {
      torch::Tensor contents = item.tensor.detach();
      broadcast(all_, contents, 0, {.name = item.name});
    }
  }
  for (NamedTensor& item : distinct_buffers(model_)) broadcast(all_, item.tensor, 0, {.name = item.name});
  broadcast_optimizer(all_, optimizer_);
  std::vector<std::int64_t> count = {steps};
  all_.broadcast(view(count), 0, {.name = "steps"});
  steps = count[0];
}

void DataParallel::State::make_buckets(const std::vector<std::size_t>& order) {
  std::vector<BucketMember> members;
  for (std::size_t i = 0; i < arena_->size(); ++i)
    members.push_back({arena_->gradient_view(i).bytes(), static_cast<std::size_t>(arena_->dtype(i))});
  buckets_.clear();
  bucket_of_.assign(arena_->size(), 0);
  for (auto& indices : plan_buckets(members, order, bucket_bytes_)) {
    BucketState state;
    state.bucket = {.index = static_cast<int>(buckets_.size()),
                    .name = arena_->name(indices.front()),
                    .gradient = arena_->gradient_range(indices.front(), indices.back())};
    state.missing = indices.size();
    for (const std::size_t i : indices) bucket_of_[i] = buckets_.size();
    state.members = std::move(indices);
    buckets_.push_back(std::move(state));
  }
}

void DataParallel::State::add_hooks() {
  for (std::size_t i = 0; i < dense_.size(); ++i)
    hooks_.push_back(std::make_unique<AutogradHook>(dense_[i].tensor, [this, i] { on_gradient(i); }));
  for (std::size_t i = 0; i < sparse_.size(); ++i)
    hooks_.push_back(std::make_unique<AutogradHook>(sparse_[i].tensor, [this, i] { on_sparse_gradient(i); }));
}

// ---- during backward

void DataParallel::State::on_gradient(std::size_t index) {
  if (alone()) return on_own_gradient(index);
  const std::size_t number = bucket_of_[index];
  if (number < next_bucket_) refuse_second_backward(index);
  arena_->adopt_gradient(index);
  // Otherwise it is looked for where the gradient is read anyway: in the reduction, or in a lone rank's update.
  const bool later = exchange_->checks_finite() || (communicator_.size() == 1 && fused_ != nullptr);
  if (!later) check_finite(arena_->gradient_view(index), arena_->name(index));
  Progress& progress = progress_[index];
  if (observed_ && std::find(observed_->begin(), observed_->end(), index) == observed_->end())
    observed_->push_back(index);
  progress.used = true;
  if (no_sync == 0 && !progress.complete) {
    progress.complete = true;
    --buckets_[number].missing;
    submit_complete();
  }
  exchange_->progress();
  lend_during_backward();
  report_bad_value();
}

void DataParallel::State::on_sparse_gradient(std::size_t index) {
  const std::size_t own = dense_.size() + index;
  if (phase_ == Phase::finished) refuse_second_backward(own);
  progress_[own].used = true;
  const torch::Tensor& gradient = sparse_[index].tensor.grad();
  check_finite(view_of(gradient.is_sparse() ? gradient._values().contiguous() : gradient), sparse_[index].name);
}

void DataParallel::State::check_finite(const TensorView& gradient, const std::string& name) {
  if (!options_.check_finite || all_finite(gradient)) return;
  refuse_values(name, communicator_.rank(), steps);
}

void DataParallel::State::refuse_values(const std::string& name, int rank, std::int64_t step) {
  give_up(fmt::format("step {}: NaN or Inf in the gradient of {}", step + 1, name), rank);
}

void DataParallel::State::report_bad_value() {
  const auto& bad = exchange_->bad_value();
  if (!bad) return;
  const BucketState& bucket = buckets_[static_cast<std::size_t>(bad->bucket)];
  const auto found = pieces_of(bucket, {bad->offset, bad->offset + 1});
  refuse_values(found.empty() ? bucket.bucket.name : arena_->name(found.front().index), bad->rank, bad->step);
}

void DataParallel::State::refuse_second_backward(std::size_t index) const {
  const std::string& name = index < dense_.size() ? dense_[index].name : sparse_[index - dense_.size()].name;
  throw Error(
      Code::invalid,
      fmt::format("backward reached parameter '{}' a second time in step {}, when its gradient was already on its "
                  "way to the other ranks; put all but the last backward() of a step under no_sync(), or add the "
                  "losses up",
                  name, steps + 1));
}

void DataParallel::State::submit_complete() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].missing == 0) {
    exchange_->submit(buckets_[next_bucket_].bucket, steps);
    ++next_bucket_;
  }
}

// What runs between two hooks is backward. Who may use the Endpoint after it is not known, so it is taken back then;
// with when=delayed it is known: nobody before drain().
void DataParallel::State::lend_during_backward() {
  if (!exchange_->lend() || delay_ > 0) return;
  torch::autograd::Engine::get_default_engine().queue_callback([this] { exchange_->recall(); });
}

// ---- finish

// Sends what is left of this step's gradients and waits for those that are due: averages in this rank's slices of all
// buckets.
void DataParallel::State::settle() {
  depart();
  await_due();
}

void DataParallel::State::finish() {
  if (phase_ == Phase::finished) return;
  if (alone()) return finish_alone();
  settle();
  bring_everywhere();
}

// Gradients that backward did not touch. One that somebody has set by hand counts as used, as it does for torch::optim.
void DataParallel::State::settle_unused() {
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    if (progress_[i].used || bucket_of_[i] < next_bucket_) continue;
    if (!hooks_[i]->attached_to(dense_[i].tensor)) arena_->adopt_parameter(i);  // throws if the type has changed
    const bool set_by_hand = !arena_->gradient_is_home(i) && dense_[i].tensor.grad().defined();
    arena_->adopt_gradient(i);
    const TensorView gradient = arena_->gradient_view(i);
    const std::byte* bytes = gradient.begin();
    const bool zero = std::all_of(bytes, bytes + gradient.bytes(), [](std::byte b) { return b == std::byte{0}; });
    progress_[i].used = set_by_hand || !zero;
    if (progress_[i].used) check_finite(gradient, dense_[i].name);
  }
}

double DataParallel::State::clip_grad_norm(double max_norm) {
  finish();
  const torch::NoGradGuard no_grad;
  double square = 0;
  std::vector<torch::Tensor> parts;
  for (const TensorView& range : arena_->gradient_ranges())
    parts.push_back(torch::from_blob(range.data, {range.count}, torch::TensorOptions().dtype(torch_type(range.dtype))));
  for (const NamedTensor& item : sparse_) {
    if (item.tensor.grad().defined()) parts.push_back(item.tensor.grad()._values());
  }
  for (const torch::Tensor& part : parts) square += std::pow(part.norm(2, torch::kDouble).item<double>(), 2);
  // The sum's bits depend on the number of threads, which may differ between ranks; the scale must not.
  std::vector<double> norm = {std::sqrt(square)};
  if (!alone()) communicator_.broadcast(view(norm), 0, {.name = "gradient norm"});
  if (norm[0] > max_norm) {
    for (torch::Tensor& part : parts) part.mul_(max_norm / (norm[0] + 1e-6));
  }
  return norm[0];
}

// ---- step

void DataParallel::State::step() {
  if (alone()) return step_alone();
  if (phase_ == Phase::gathering) settle();
  if (due_) apply();
  end_step();
}

// Updates the parameters by the round that is due.
void DataParallel::State::apply() {
  const bool may_share = fused_ != nullptr && fused_->sliceable() && (options_.share_update || fused_->stateless());
  if (may_share && exchange_->shares_update() && phase_ == Phase::gathering) {
    update_own_share();
  } else {
    bring_everywhere();
    adopt_parameters();
    update();
  }
}

torch::Tensor DataParallel::State::step(const std::function<torch::Tensor()>& closure) {
  refuse_closure();
  torch::Tensor first_loss;
  const auto averaged = [&] {
    if (phase_ == Phase::finished) {
      forget_progress();  // the optimizer evaluates once more
    }
    torch::Tensor loss = closure();
    finish();
    torch::Tensor average = loss.detach().clone();
    if (!alone()) allreduce(site_ ? *site_ : user, average, ReduceOp::average, {.name = "loss"});
    if (!first_loss.defined()) first_loss = average;
    adopt_parameters();
    return average;
  };
  if (!takes_part()) {
    averaged();
  } else if (fused_ != nullptr) {
    averaged();
    update();
  } else {
    const TimePoint start = endpoint_.clock().now();
    optimizer_.step(averaged);
    update_time_ += endpoint_.clock().now() - start;
  }
  alone() ? end_alone() : end_step();
  return first_loss;
}

void DataParallel::State::adopt_parameters() {
  for (std::size_t i = 0; i < arena_->size(); ++i) {
    if (arena_->adopt_parameter(i) && doubt_ == Doubt::none) doubt_ = Doubt::here;
  }
  for (const NamedTensor& item : frozen_) {
    if (!item.tensor.requires_grad()) continue;
    throw Error(Code::invalid,
                fmt::format("parameter '{}' was frozen when DataParallel was made and is not now; make the "
                            "DataParallel after changing what is trained",
                            item.name));
  }
}

void DataParallel::State::end_step() {
  if (mixer_) mixer_->end_update(steps);
  begin_round();
}

void DataParallel::State::begin_round() {
  ++steps;
  forget_progress();
  if (observed_) follow_order(*std::exchange(observed_, std::nullopt));
  if (check_is_due())
    check_replicas();
  else if (doubt_ == Doubt::agreed)
    compare_replicas(communicator_);
  if (alone() && mixer_ == nullptr) start_mixing();
  lend();
}

// Where parameters meet: at the first meeting of all after that many steps.
bool DataParallel::State::check_is_due() const {
  if (options_.check_every == 0) return false;
  if (mixer_ == nullptr) return steps % options_.check_every == 0;
  return mixer_->agreed() && mixer_->complete() && steps - checked_ >= options_.check_every;
}

void DataParallel::State::forget_progress() {
  phase_ = Phase::gathering;
  due_.reset();
  next_bucket_ = 0;
  for (BucketState& bucket : buckets_) bucket.missing = bucket.members.size();
  std::fill(progress_.begin(), progress_.end(), Progress{});
}

// Once, after the first step: rank 0's order for all, with those that it never saw at the end.
void DataParallel::State::follow_order(const std::vector<std::size_t>& observed) {
  std::vector<std::int64_t> order(observed.begin(), observed.end());
  for (const std::size_t index : reversed(dense_.size())) {
    if (std::find(observed.begin(), observed.end(), index) == observed.end())
      order.push_back(static_cast<std::int64_t>(index));
  }
  communicator_.broadcast(view(order), 0, {.name = "order of gradients"});
  const std::vector<std::size_t> agreed(order.begin(), order.end());
  if (agreed == reversed(dense_.size())) return;
  bring_state_everywhere();  // slices are about to change hands
  bring_all_rounds_everywhere();
  arena_->lay_out(agreed);
  make_buckets(agreed);
  communicator_.barrier({.name = "new layout"});
}

void DataParallel::State::check_replicas() {
  if (!met()) {
    throw Error(Code::invalid,
                fmt::format("with {} workers have different parameters between two meetings of all: call "
                            "drain() before check_replicas()",
                            plan_.text()));
  }
  compare_replicas(all_);
  checked_ = steps;
}

void DataParallel::State::compare_replicas(Communicator& among) {
  doubt_ = Doubt::none;
  std::vector<NamedTensor> all = dense_;
  all.insert(all.end(), sparse_.begin(), sparse_.end());
  all.insert(all.end(), frozen_.begin(), frozen_.end());
  compare_contents(among, all, steps);
}

void DataParallel::State::sync_buffers() {
  for (NamedTensor& item : distinct_buffers(model_)) {
    if (options_.buffers == BufferPolicy::average && item.tensor.is_floating_point()) {
      allreduce(user, item.tensor, ReduceOp::average, {.name = item.name});
    } else {
      broadcast(user, item.tensor, 0, {.name = item.name});
    }
  }
}

}  // namespace paceline
