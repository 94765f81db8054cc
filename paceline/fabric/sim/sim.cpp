#include "paceline/fabric/sim/sim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "paceline/core/check.hpp"
#include "paceline/fabric/sim/core.hpp"
#include "paceline/fabric/sim/sim_transport.hpp"

namespace paceline {
namespace {

std::string sentence(const std::exception_ptr& error) {
  if (error == nullptr) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "something that is not a std::exception";
  }
}

const char* name(SimReport::Outcome outcome) {
  switch (outcome) {
    case SimReport::Outcome::finished: return "finished";
    case SimReport::Outcome::threw: return "threw";
    case SimReport::Outcome::killed: return "was killed";
    case SimReport::Outcome::stopped: return "was stopped";
  }
  return "?";
}

}  // namespace

SimWorld::SimWorld(SimOptions options) {
  CHECK(options.ranks > 0, "a simulated world has ranks");
  core_ = std::make_unique<sim::Core>(std::move(options));
}

SimWorld::~SimWorld() = default;

void SimWorld::compute(Rank rank, Duration work) { core_->compute(rank, work); }

SimReport SimWorld::run(const Body& body) {
  CHECK(!has_run_, "a SimWorld runs once");
  has_run_ = true;
  SimReport report;
  report.seed = core_->options.seed;
  report.faults = core_->options.faults.describe();
  report.ranks.resize(static_cast<std::size_t>(core_->options.ranks));
  {
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < core_->options.ranks; ++rank) {
      threads.emplace_back([&, rank] { run_rank(body, rank, report.ranks[static_cast<std::size_t>(rank)]); });
    }
    core_->scheduler.start();
  }
  for (const SimReport::OfRank& rank : report.ranks)
    report.duration = std::max(report.duration, rank.ended - kSimStart);
  report.trace_hash = core_->trace.hash();
  report.counters = core_->counters;
  report.counters.switches = core_->scheduler.switches();
  report.stopped = core_->scheduler.stopped();
  report.log = core_->trace.last();
  return report;
}

void SimWorld::run_rank(const Body& body, Rank rank, SimReport::OfRank& report) {
  core_->scheduler.begin(rank);
  std::exception_ptr error;
  try {
    body(std::make_unique<sim::SimTransport>(*core_, rank), rank);
  } catch (const sim::Unwound&) {
  } catch (...) {
    error = std::current_exception();
  }
  report = ended(rank, std::move(error));
  core_->scheduler.finish(rank);
}

// A rank that was told to end has ended so, whatever its code made of it.
SimReport::OfRank SimWorld::ended(Rank rank, std::exception_ptr error) const {
  using Outcome = SimReport::Outcome;
  const std::string& stopped = core_->scheduler.stopped();
  SimReport::OfRank report{.outcome = error == nullptr ? Outcome::finished : Outcome::threw,
                           .error = std::move(error),
                           .ended = core_->scheduler.now(rank),
                           .calls = core_->calls(rank)};
  if (core_->killed(rank)) {
    report.outcome = Outcome::killed;
    report.error = nullptr;
  } else if (!stopped.empty()) {
    report.outcome = Outcome::stopped;
    report.error = std::make_exception_ptr(Error(Code::timeout, rank, stopped));
  }
  return report;
}

bool SimReport::ok() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const OfRank& rank) { return rank.outcome == Outcome::finished; });
}

void SimReport::rethrow() const {
  const OfRank* first = nullptr;
  const auto weight = [](const OfRank& rank) { return std::pair(rank.outcome == Outcome::stopped, rank.ended); };
  for (const OfRank& rank : ranks) {
    if (rank.error != nullptr && (first == nullptr || weight(rank) < weight(*first))) first = &rank;
  }
  if (first != nullptr) std::rethrow_exception(first->error);
}

std::string SimReport::describe() const {
  std::string text = fmt::format(
      "sim run of {} ranks with seed {} ({}): {} calls, {} frames, {:.3f} us, trace {:016x}\n", ranks.size(), seed,
      faults, counters.calls, counters.frames, std::chrono::duration<double, std::micro>(duration).count(), trace_hash);
  if (!stopped.empty()) text += stopped + "\n";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const OfRank& one = ranks[rank];
    text += fmt::format("rank {} {} at {}", rank, name(one.outcome), describe_time(one.ended));
    if (one.outcome == Outcome::threw) text += ": " + sentence(one.error);
    text += "\n";
  }
  text += fmt::format("the last {} events:\n", log.size());
  for (const SimTraceEntry& entry : log) text += paceline::describe(entry) + "\n";
  return text;
}

}  // namespace paceline
