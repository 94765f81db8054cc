#include "paceline/collective/test_backends.hpp"

#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/shm/shm.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

using collective_test::Body;

void run_on_sim(int n, const Body& body) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const SimReport report = run_sim({.ranks = n, .seed = seed, .faults = Faults::random_delays(seed, n)}, body);
    if (!report.ok()) std::fputs(report.describe().substr(0, 3000).c_str(), stderr);
    report.rethrow();
  }
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = {
      {"Threads", [](int n, const Body& body) { run_ranks(n, body); }},
      {"ShmThreads", [](int n, const Body& body) { run_ranks(shm::make_shm_thread_endpoints(n), body); }},
      {"Sim", run_on_sim}};
  return all;
}

}  // namespace paceline
