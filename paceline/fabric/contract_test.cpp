#include <gtest/gtest.h>

#include "paceline/fabric/contract_test_support.hpp"
#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/shm/run_processes.hpp"
#include "paceline/fabric/shm/shm.hpp"
#include "paceline/fabric/sim/run_sim.hpp"

namespace paceline {
namespace {

struct Threads {
  static void run(int n, const std::function<void(Endpoint&)>& body) { run_ranks(n, body); }
};

struct ShmThreads {
  static void run(int n, const std::function<void(Endpoint&)>& body) {
    run_ranks(shm::make_shm_thread_endpoints(n), body);
  }
};

struct ShmProcesses {
  static void run(int n, const std::function<void(Endpoint&)>& body) {
    const auto endings = shm::run_processes(n, [&](Endpoint& endpoint) {
      body(endpoint);
      return testing::Test::HasFailure() ? 1 : 0;
    });
    for (std::size_t rank = 0; rank < endings.size(); ++rank) EXPECT_EQ(endings[rank], 0) << "rank " << rank;
  }
};

// Links of few frames and a jittery network, so that every wait for room and every overtaking happens; all seeds
// replay.
struct Sim {
  static void run(int n, const std::function<void(Endpoint&)>& body) {
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
      const SimReport report = run_sim({.ranks = n, .seed = seed, .faults = Faults::random_delays(seed, n)}, body);
      if (!report.ok()) std::fputs(report.describe().c_str(), stderr);
      report.rethrow();
    }
  }
};

#if defined(__SANITIZE_THREAD__)
using Backends = testing::Types<Threads, ShmThreads, Sim>;  // tsan does not follow a fork
#else
using Backends = testing::Types<Threads, ShmThreads, Sim, ShmProcesses>;
#endif
INSTANTIATE_TYPED_TEST_SUITE_P(Local, Contract, Backends);

}  // namespace
}  // namespace paceline
