#include "paceline/collective/schedule.hpp"

#include <algorithm>
#include <array>

namespace paceline {
namespace {

// Which steps have read and written each block so far.
class Accesses {
 public:
  void note(const std::vector<Blocks>& read, const std::vector<Blocks>& written, int step) {
    for (const Blocks& blocks : read) each(blocks, [&](Access& block) { block.readers.push_back(step); });
    for (const Blocks& blocks : written) each(blocks, [&](Access& block) { block.writers.push_back(step); });
  }

  // The steps that have written what is read now, or touched what is written now; ascending.
  std::vector<int> conflicts(const std::vector<Blocks>& read, const std::vector<Blocks>& written) {
    std::vector<int> found;
    const auto take = [&found](const std::vector<int>& steps) {
      found.insert(found.end(), steps.begin(), steps.end());
    };
    for (const Blocks& blocks : read) each(blocks, [&](Access& block) { take(block.writers); });
    for (const Blocks& blocks : written) {
      each(blocks, [&](Access& block) {
        take(block.writers);
        take(block.readers);
      });
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

 private:
  struct Access {
    std::vector<int> readers;
    std::vector<int> writers;
  };

  template <class Visit>
  void each(const Blocks& blocks, Visit visit) {
    auto& all = buffers_[static_cast<std::size_t>(blocks.buffer)];
    const auto end = static_cast<std::size_t>(blocks.first + blocks.count);
    if (all.size() < end) all.resize(end);
    for (auto block = static_cast<std::size_t>(blocks.first); block < end; ++block) visit(all[block]);
  }

  std::array<std::vector<Access>, 3> buffers_;
};

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

Schedule link_steps(Schedule schedule, int ranks) {
  Accesses accesses;
  std::vector<int> communicating;
  schedule.waits.clear();
  for (const Step& step : schedule.steps) {
    const auto read = reads(step, schedule, ranks);
    const auto written = writes(step);
    // A meeting or a look into mapped memory comes after all that was sent and received before it.
    schedule.waits.push_back(step.action >= Action::meet ? communicating : accesses.conflicts(read, written));
    // Local steps are complete when they are issued: nobody has to wait for them.
    if (!step.communicates()) continue;
    const int number = static_cast<int>(schedule.waits.size()) - 1;
    accesses.note(read, written, number);
    communicating.push_back(number);
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
