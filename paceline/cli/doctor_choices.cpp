#include "paceline/cli/doctor_choices.hpp"

#include <algorithm>
#include <optional>

#include "paceline/cli/measure.hpp"
#include "paceline/collective/planner.hpp"
#include "paceline/launch/cores.hpp"

namespace paceline {
namespace {

constexpr std::size_t kSizes[] = {4 << 10, 1 << 20, 64 << 20};

PlannerFacts facts_of(const DoctorReport& report, const CostModel& cost) {
  PlannerFacts facts{.ranks = report.workers(), .cores = report.cores, .cost = cost};
  for (int rank = 0; rank < facts.ranks; ++rank)
    facts.hosts.push_back(static_cast<int>(&report.host_of(rank) - report.hosts.data()));
  facts.mapped_memory = report.hosts.size() == 1 && report.hosts.front().shares_memory;
  return facts;
}

}  // namespace

CostModel cost_of(const DoctorReport& report) {
  std::vector<double> near_us, near, far_us, far;
  for (const LinkReport& link : report.links) {
    const bool beside = report.on_one_host(link.from, link.to);
    (beside ? near_us : far_us).push_back(link.latency_us);
    (beside ? near : far).push_back(link.gbps);
  }
  CostModel model;
  if (!near.empty() && median(near) > 0) {
    model.alpha = median(near_us) * 1e-6;
    model.beta = 1e-9 / median(near);
  }
  const double slowest = far.empty() ? 0 : *std::min_element(far.begin(), far.end());
  if (slowest > 0) {
    model.net_alpha = median(far_us) * 1e-6;
    model.net_beta = 1e-9 / slowest;
  }
  return model;
}

std::vector<Choice> choices(const DoctorReport& report) {
  std::vector<Choice> all;
  if (report.workers() < 2) return all;
  Planner planner(facts_of(report, {}));
  Planner measured(facts_of(report, cost_of(report)));
  for (const std::size_t bytes : kSizes) {
    const auto price = [&](Algorithm algorithm) {
      return measured.price_of(Collective::allreduce, algorithm, static_cast<double>(bytes));
    };
    const Algorithm taken = planner.resolve(Collective::allreduce, Algorithm::automatic, bytes);
    Algorithm quickest = measured.resolve(Collective::allreduce, Algorithm::automatic, bytes);
    if (price(quickest) >= price(taken)) quickest = taken;  // it decides alike for all sizes up to the double
    all.push_back({bytes, taken, quickest, price(taken), price(quickest)});
  }
  return all;
}

int default_workers(const HostReport& host) {
  return default_threads(static_cast<std::size_t>(host.cores),
                         host.quota > 0 ? std::optional(host.quota) : std::nullopt, 1);
}

}  // namespace paceline
