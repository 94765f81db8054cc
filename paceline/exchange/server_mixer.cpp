#include "paceline/exchange/server_mixer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/server/update_rule.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLineFloats = 16;

std::size_t rounded_up(std::size_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

// ssp and essp read copies in which a worker must see its own updates at once, which it does only of changes.
bool apply_on_servers(const Policy& policy, const MixerOptions& options) {
  if (options.choices.apply == MixChoices::Apply::automatic) {
    const bool copies = policy.kind == Policy::Kind::ssp || policy.kind == Policy::Kind::essp;
    return !copies && !options.rule.empty();
  }
  if (options.choices.apply == MixChoices::Apply::worker) return false;
  if (options.rule.empty())
    throw Error(Code::invalid,
                "no server has an optimizer like this one; use --apply worker, or sgd, momentum, adagrad, "
                "rmsprop or adam");
  return true;
}

SessionOptions session_of(const Communicator& communicator, const Policy& policy, const MixerOptions& options) {
  if (options.servers.empty())
    throw Error(Code::invalid, "where=server needs servers: give DataParallel the Job, which starts them");
  return {.servers = options.servers, .worker = communicator.rank(), .workers = communicator.size(), .policy = policy};
}

std::span<float> floats_of(const TensorView& view) {
  if (view.dtype != DType::f32)
    throw Error(Code::invalid,
                fmt::format("where=server keeps f32 parameters; this model has some of type {}", name(view.dtype)));
  return {static_cast<float*>(view.data), static_cast<std::size_t>(view.count)};
}

}  // namespace

ServerMixer::ServerMixer(Communicator& communicator, const Plan& plan, MixerOptions options)
    : Mixer(communicator, std::move(options)),
      policy_(plan.policy()),
      on_servers_(apply_on_servers(policy_, options_)),
      session_(communicator.endpoint(), session_of(communicator, policy_, options_)) {
  if (plan.adapts()) adaptive_.emplace();
  last_end_ = now();
  const MixChoices& choices = options_.choices;
  if (!on_servers_ && (choices.divide_by_staleness || choices.compensation != 0))
    throw Error(Code::invalid,
                "staleness is taken into account where gradients are applied, and no server has an optimizer "
                "like this one; use sgd, momentum, adagrad, rmsprop or adam");
  open_tables();
}

ServerMixer::~ServerMixer() {
  try {
    session_.leave();
  } catch (const Error&) {
    // Whoever has failed says so itself.
  }
}

double ServerMixer::share() const {
  switch (policy_.kind) {
    case Policy::Kind::async: return 1;
    case Policy::Kind::softsync: return 1.0 / policy_.number;
    default: return 1.0 / communicator_.size();
  }
}

TableSpec ServerMixer::spec_of(std::size_t index, std::size_t floats) const {
  const MixChoices& choices = options_.choices;
  return {.name = fmt::format("parameters {}", index),
          .kind = TableSpec::Kind::dense,
          .rows = floats,
          .rule = on_servers_ ? options_.rule : "add",
          .divide_by_staleness = choices.divide_by_staleness,
          .compensation = choices.compensation};
}

void ServerMixer::open_tables() {
  std::size_t floats = 0;
  for (const TensorView& view : options_.parameters) floats += 2 * rounded_up(static_cast<std::size_t>(view.count));
  memory_ = communicator_.endpoint().allocate(floats * sizeof(float));
  std::span<float> left = memory_.as<float>();
  const auto take = [&](std::size_t count) {
    const std::span<float> taken = left.first(count);
    left = left.subspan(rounded_up(count));
    return taken;
  };
  for (std::size_t i = 0; i < options_.parameters.size(); ++i) {
    const std::span<float> parameters = floats_of(options_.parameters[i]);
    Range range{.table = session_.open(spec_of(i, parameters.size())),
                .parameters = parameters,
                .gradients = on_servers_ ? floats_of(options_.gradients[i]) : std::span<float>(),
                .outgoing = take(parameters.size()),
                .before = take(parameters.size())};
    if (communicator_.rank() == 0) range.table.set({0, parameters.size()}, parameters).wait();
    std::copy(parameters.begin(), parameters.end(), range.before.begin());
    ranges_.push_back(range);
  }
  communicator_.barrier({.name = "parameters are on the servers"});
}

// Adds this step to what is sent with the next push.
void ServerMixer::gather(Range& range) {
  const auto part = static_cast<float>(on_servers_ ? 1.0 / static_cast<double>(options_.choices.push_every) : share());
  for (std::size_t i = 0; i < range.parameters.size(); ++i) {
    const float update = on_servers_ ? range.gradients[i] : range.parameters[i] - range.before[i];
    range.outgoing[i] = (gathered_ == 0 ? 0.0F : range.outgoing[i]) + part * update;
  }
}

void ServerMixer::push() {
  const bool straight = on_servers_ && options_.choices.push_every == 1;
  std::vector<TablePending> pushes;
  for (Range& range : ranges_) {
    const RowRange all{0, range.parameters.size()};
    if (on_servers_) {
      pushes.push_back(range.table.push(all, straight ? range.gradients : range.outgoing, options_.learning_rate()));
    } else {
      range.table.inc(all, range.outgoing);
    }
  }
  session_.clock();
  for (TablePending& one : pushes) one.wait();
  session_.flush();  // servers may still read what is overwritten next
}

void ServerMixer::fetch() {
  for (Range& range : ranges_) {
    range.table.get({0, range.parameters.size()}, range.parameters);
    if (!on_servers_) std::copy(range.parameters.begin(), range.parameters.end(), range.before.begin());
  }
}

void ServerMixer::end_update(std::int64_t step) {
  agreed_ = false;
  last_step_ = step;
  const MixChoices& choices = options_.choices;
  timed(step, [&] {
    const Duration waited = session_.counters().waited;
    const bool straight = on_servers_ && choices.push_every == 1;
    for (Range& range : ranges_) {
      if (!straight) gather(range);
      if (!on_servers_) std::copy(range.parameters.begin(), range.parameters.end(), range.before.begin());
    }
    if (++gathered_ >= choices.push_every) {
      push();
      gathered_ = 0;
    }
    if ((step + 1) % choices.fetch_every == 0) fetch();
    if (policy_.kind == Policy::Kind::bsp) agree(communicator_.size());  // all have read the same
    waited_ += session_.counters().waited - waited;
    if (adaptive_) adapt(session_.counters().waited - waited);
  });
}

void ServerMixer::adapt(Duration waited) {
  const TimePoint end = now();
  const double passed = seconds(end - std::exchange(last_end_, end));
  const auto change = adaptive_->after({.seconds = passed, .waited = seconds(waited), .loss = loss_});
  loss_ = AdaptiveBound::kUnknown;
  if (!change) return;
  session_.set_bound(change->to);
  remarks_.push_back(fmt::format("when=auto: from ssp:{} to ssp:{} at step {}: {}", change->from, change->to,
                                 last_step_ + 1, change->why));
}

// Nobody pushes between the two meetings, so that all read the same.
int ServerMixer::meet(Batches batches) {
  if (batches == Batches::none)
    throw Error(Code::invalid,
                "workers with different numbers of batches cannot be joined with where=server; give all "
                "the same number, or use when=bsp where=allreduce");
  timed(last_step_, [&] {
    if (gathered_ > 0) push();
    gathered_ = 0;
    communicator_.barrier({.name = "all have pushed"});
    for (Range& range : ranges_) {
      range.table.get_latest({0, range.parameters.size()}, range.parameters);
      std::copy(range.parameters.begin(), range.parameters.end(), range.before.begin());
    }
    communicator_.barrier({.name = "all have read"});
  });
  agree(communicator_.size());
  return communicator_.size();
}

// Of the others a worker's parameters are all there is.
std::vector<Table> ServerMixer::tables() {
  std::vector<Table> tables;
  for (const Range& range : ranges_) {
    if (state_floats(parse_rule(range.table.spec().rule).kind) > 0) tables.push_back(range.table);
  }
  return tables;
}

std::optional<ServerStatistics> ServerMixer::statistics() {
  ServerStatistics statistics{.reads = session_.staleness(),
                              .updates = {},
                              .applied = on_servers_ ? "by servers: " + options_.rule : "by workers"};
  if (on_servers_ && communicator_.rank() == 0) {
    for (Range& range : ranges_) statistics.updates.merge(range.table.updates_missed());
  }
  return statistics;
}

}  // namespace paceline
