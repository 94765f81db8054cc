#include "paceline/collective/verify.hpp"

#include <fmt/format.h>

#include <utility>

#include "paceline/collective/verify_case.hpp"

namespace paceline {
namespace {

constexpr std::size_t kFindings = 20;  // what is wrong in one place is wrong in hundreds

std::string text(const Blocks& blocks) {
  static constexpr const char* kNames[] = {"input", "output", "scratch"};
  const char* buffer = kNames[static_cast<int>(blocks.buffer)];
  if (blocks.count == 1) return fmt::format("{} {}", buffer, blocks.first);
  return fmt::format("{} {}-{}", buffer, blocks.first, blocks.first + blocks.count - 1);
}

std::string text(const Step& step) {
  switch (step.action) {
    case Action::send: return fmt::format("send {} to {}", text(step.what), step.peer);
    case Action::receive: return fmt::format("receive {} from {}", text(step.what), step.peer);
    case Action::reduce: return fmt::format("reduce {} from {}", text(step.what), step.peer);
    case Action::add: return fmt::format("add {} to {}", text(step.with), text(step.what));
    case Action::move: return fmt::format("move {} to {}", text(step.with), text(step.what));
    case Action::fold: return fmt::format("fold {} into {}", text(step.with), text(step.what));
    case Action::finish: return fmt::format("finish {}", text(step.what));
    case Action::meet: return "meet";
    case Action::direct: return fmt::format("direct {}", text(step.what));
    case Action::pull: return fmt::format("pull {} of {} to {}", text(step.with), step.peer, text(step.what));
  }
  return "?";
}

}  // namespace

int VerifyCase::blocks_in(int rank, Buffer buffer) const {
  const Schedule& s = schedule(rank);
  switch (buffer) {
    case Buffer::input: return goal.inputs(rank);
    case Buffer::output: return goal.outputs(rank, s.blocks);
    case Buffer::scratch: return s.scratch_copies * s.blocks;
  }
  return 0;
}

void VerifyCase::report(Place place, const std::string& what) {
  if (findings.size() >= kFindings) return;
  std::string where = fmt::format("{}, n = {}", goal.name, ranks());
  if (place.rank >= 0) where += fmt::format(", rank {}", place.rank);
  if (place.step >= 0) where += fmt::format(", step {} ({})", place.step, text(step(place)));
  findings.push_back(where + ": " + what);
}

std::vector<Touch> touches(const VerifyCase& verify_case, Place place) {
  const Step& step = verify_case.step(place);
  switch (step.action) {
    case Action::meet: return {};
    case Action::send: return {{step.what, false}};
    case Action::add:
    case Action::move: return {{step.what, true}, {step.with, false}};
    case Action::fold: {
      std::vector<Touch> all = {{step.what, true}, {step.with, false}};
      for (int rank = 0; rank < verify_case.ranks(); ++rank) {
        const int first = rank * verify_case.schedule(place.rank).blocks + step.what.first;
        if (rank != place.rank) all.push_back({{Buffer::scratch, first, step.what.count}, false});
      }
      return all;
    }
    case Action::receive:
    case Action::reduce:
    case Action::finish:
    case Action::direct:
    case Action::pull: return {{step.what, true}};
  }
  return {};
}

Verdict verify(const Goal& goal, const std::function<Schedule(int rank)>& linked_schedule_of) {
  VerifyCase verify_case{.goal = goal};
  for (int rank = 0; rank < goal.ranks; ++rank) verify_case.schedules.push_back(linked_schedule_of(rank));
  Verdict verdict;
  if (check_form(verify_case)) {
    match_messages(verify_case);
    check_overlap(verify_case);
    check_mapped(verify_case);
    check_runs(verify_case, verdict);
  }
  verdict.findings = std::move(verify_case.findings);
  return verdict;
}

}  // namespace paceline
