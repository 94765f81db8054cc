#include "paceline/collective/schedule.hpp"

#include <algorithm>

namespace paceline {
namespace {

bool any_overlap(const std::vector<Blocks>& a, const std::vector<Blocks>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Blocks& x) {
    return std::any_of(b.begin(), b.end(), [&](const Blocks& y) { return x.overlaps(y); });
  });
}

}  // namespace

std::string_view name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::automatic: return "auto";
    case Algorithm::naive: return "naive";
    case Algorithm::ring: return "ring";
    case Algorithm::butterfly: return "butterfly";
    case Algorithm::halving_doubling: return "halving-doubling";
    case Algorithm::tree: return "tree";
    case Algorithm::star: return "star";
    case Algorithm::ordered: return "ordered";
    case Algorithm::shm: return "shm";
    case Algorithm::hierarchical: return "hierarchical";
    case Algorithm::pairwise: return "pairwise";
    case Algorithm::chain: return "chain";
    case Algorithm::dissemination: return "dissemination";
  }
  return "?";
}

bool Schedule::uses_mapped_memory() const {
  // Those whose memory is only looked into, such as the root of a broadcast, just meet.
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.action >= Action::meet; });
}

std::vector<Blocks> reads(const Step& step, const Schedule& schedule, int ranks) {
  switch (step.action) {
    case Action::send:
    case Action::reduce:
    case Action::finish: return {step.what};
    case Action::add: return {step.what, step.with};
    case Action::move: return {step.with};
    case Action::fold: {
      std::vector<Blocks> all = {step.with};
      for (int copy = 0; copy < ranks; ++copy) {
        all.push_back({Buffer::scratch, copy * schedule.blocks + step.what.first, step.what.count});
      }
      return all;
    }
    case Action::receive:
    case Action::meet:
    case Action::direct:
    case Action::pull: return {};
  }
  return {};
}

std::vector<Blocks> writes(const Step& step) {
  if (step.action == Action::send || step.action == Action::meet) return {};
  return {step.what};
}

// Quadratic in the steps: schedules are made once per group and have at most some hundred steps per rank.
Schedule link_steps(Schedule schedule, int ranks) {
  const std::size_t count = schedule.steps.size();
  std::vector<std::vector<Blocks>> read(count), written(count);
  for (std::size_t i = 0; i < count; ++i) {
    read[i] = reads(schedule.steps[i], schedule, ranks);
    written[i] = writes(schedule.steps[i]);
  }
  schedule.waits.assign(count, {});
  for (std::size_t i = 0; i < count; ++i) {
    const bool local = !schedule.steps[i].communicates();
    for (std::size_t j = 0; j < i; ++j) {
      // Local steps are complete when they are issued: nobody has to wait for them.
      if (!schedule.steps[j].communicates()) continue;
      // A meeting or a look into mapped memory comes after all that was sent and received before it.
      const bool fence = local && schedule.steps[i].action >= Action::meet;
      const bool conflict =
          any_overlap(written[i], read[j]) || any_overlap(written[i], written[j]) || any_overlap(read[i], written[j]);
      if (fence || conflict) schedule.waits[i].push_back(static_cast<int>(j));
    }
  }
  return schedule;
}

Counts count_sends(const Schedule& schedule) {
  Counts counts;
  for (const Step& step : schedule.steps) {
    if (step.action != Action::send) continue;
    ++counts.sends;
    counts.sent_vectors += static_cast<double>(step.what.count) / schedule.blocks;
  }
  return counts;
}

}  // namespace paceline
