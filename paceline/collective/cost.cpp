#include "paceline/collective/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>
#include <utility>

#include "paceline/collective/layout.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// All ranks' schedules against each other, a long vector in up to 16 segments one after the other. A message leaves
// when its send is reached; a receive waits for it. Really some segments are under way at a time, which hides the way
// between hosts of all but the first: it is counted there alone. Else butterfly, with the fewest rounds, would be taken
// for long vectors between two hosts, where it sends as much as the others and adds up twice as much.
class ModelRun {
 public:
  ModelRun(const CostModel& model, const Crowd& crowd, double bytes, const std::function<Schedule(int)>& schedule_of)
      : model_(model), crowd_(crowd), ranks_(crowd.ranks) {
    const double share = std::max(1.0, static_cast<double>(crowd.most_on_a_host()) / crowd.cores);
    work_ = share;
    alpha_ = model.alpha + (share > 1 ? model.switch_cost : 0);
    for (int rank = 0; rank < ranks_; ++rank) schedules_.push_back(schedule_of(rank));
    const bool whole = schedules_.front().uses_mapped_memory();
    const auto segment = static_cast<double>(usual_segment(schedules_.front().blocks, crowd.most_on_a_host() < ranks_));
    segments_ = whole ? 1 : static_cast<std::size_t>(std::clamp(std::ceil(bytes / segment), 1.0, 16.0));
    bytes_ = bytes / static_cast<double>(segments_);
    at_.assign(static_cast<std::size_t>(ranks_), 0);
    now_.assign(static_cast<std::size_t>(ranks_), 0);
  }

  double finish_time() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < ranks_; ++rank) {
        while (step(rank)) moved = true;
      }
      moved |= release_meeting();
    }
    return *std::max_element(now_.begin(), now_.end());
  }

 private:
  double part(const Schedule& schedule, const Blocks& blocks) const { return bytes_ * blocks.count / schedule.blocks; }

  bool finished(std::size_t rank) const { return at_[rank] == schedules_[rank].steps.size() * segments_; }

  bool step(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const Schedule& schedule = schedules_[r];
    if (finished(r)) return false;
    const Step& step = schedule.steps[at_[r] % schedule.steps.size()];
    const double amount = part(schedule, step.what);
    switch (step.action) {
      case Action::meet: return false;
      case Action::send:
        now_[r] += work_ * model_.beta * amount / 2;  // copied in here, copied out there
        wire_[{rank, step.peer}].push_back(crowd_.on_one_host(rank, step.peer) ? now_[r] + alpha_
                                                                               : cross(rank, step.peer, amount));
        break;
      case Action::receive:
      case Action::reduce: {
        auto& queue = wire_[{step.peer, rank}];
        if (queue.empty()) return false;
        now_[r] = std::max(now_[r], queue.front()) + work_ * model_.beta * amount / 2;
        queue.pop_front();
        if (step.action == Action::reduce) now_[r] += work_ * model_.gamma * amount;
        break;
      }
      case Action::add: now_[r] += work_ * model_.gamma * amount; break;
      case Action::fold: now_[r] += work_ * model_.gamma * amount * ranks_; break;
      case Action::direct: now_[r] += work_ * model_.direct * amount * ranks_; break;
      case Action::move:
      case Action::finish:
      case Action::pull: now_[r] += work_ * model_.gamma * amount; break;
    }
    ++at_[r];
    return true;
  }

  // When a message that leaves now has arrived at another host. The links of both hosts carry one at a time.
  double cross(int from, int to, double amount) {
    double& out = links_[crowd_.hosts[static_cast<std::size_t>(from)]].out;
    double& in = links_[crowd_.hosts[static_cast<std::size_t>(to)]].in;
    const double start = now_[static_cast<std::size_t>(from)], span = model_.net_beta * amount;
    out = std::max(out, start) + span;
    in = std::max(in + span, out);
    const auto sender = static_cast<std::size_t>(from);
    const bool first = at_[sender] < schedules_[sender].steps.size();
    return in + (first ? model_.net_alpha : 0);
  }

  // When every rank stands at a meeting, or is done, all go on from the time of the last one.
  bool release_meeting() {
    bool any = false;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (!finished(r) && schedules_[r].steps[at_[r] % schedules_[r].steps.size()].action != Action::meet) return false;
      any |= !finished(r);
    }
    if (!any) return false;
    const double last = *std::max_element(now_.begin(), now_.end());
    for (std::size_t r = 0; r < now_.size(); ++r) {
      if (finished(r)) continue;
      ++at_[r];
      now_[r] = last + alpha_ + model_.alpha * (ranks_ - 1);
    }
    return true;
  }

  // Until when a host's link is taken, in each direction.
  struct Link {
    double out = 0;
    double in = 0;
  };

  const CostModel& model_;
  const Crowd& crowd_;
  std::map<int, Link> links_;
  const int ranks_;
  std::size_t segments_ = 1;
  double bytes_ = 0;  // of a segment
  double work_ = 1;
  double alpha_ = 0;
  std::vector<Schedule> schedules_;
  std::vector<std::size_t> at_;
  std::vector<double> now_;
  std::map<std::pair<int, int>, std::deque<double>> wire_;
};

}  // namespace

int Crowd::most_on_a_host() const {
  if (hosts.empty()) return ranks;
  int most = 1;
  for (const int host : hosts) most = std::max(most, static_cast<int>(std::count(hosts.begin(), hosts.end(), host)));
  return most;
}

double price(const CostModel& model, const Crowd& crowd, double bytes,
             const std::function<Schedule(int)>& schedule_of) {
  return ModelRun(model, crowd, bytes, schedule_of).finish_time();
}

std::string CostModel::text() const {
  return fmt::format("alpha={},beta={},gamma={},direct={},switch={},net_alpha={},net_beta={}", alpha, beta, gamma,
                     direct, switch_cost, net_alpha, net_beta);
}

CostModel CostModel::parse(const std::string& text) {
  CostModel m;
  int used = 0;
  const int fields =
      std::sscanf(text.c_str(), "alpha=%lg,beta=%lg,gamma=%lg,direct=%lg,switch=%lg,net_alpha=%lg,net_beta=%lg%n",
                  &m.alpha, &m.beta, &m.gamma, &m.direct, &m.switch_cost, &m.net_alpha, &m.net_beta, &used);
  bool good = fields == 7 && used == static_cast<int>(text.size());
  for (const double value : {m.alpha, m.beta, m.gamma, m.direct, m.switch_cost, m.net_alpha, m.net_beta}) {
    good = good && std::isfinite(value) && value >= 0;
  }
  if (!good) {
    throw Error(Code::invalid, "cost model '" + text +
                                   "' is not of the form alpha=S,beta=S,gamma=S,direct=S,switch=S,net_alpha=S,"
                                   "net_beta=S with seconds S");
  }
  return m;
}

}  // namespace paceline
