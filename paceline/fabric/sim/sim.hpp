// The sim back end: ranks run their real code as threads of one process, one at a time, in virtual time, over links
// that delay, lose, duplicate, fill up and die as the seed says. The same seed gives the same run, event by event.
//
//   SimWorld world({.ranks = 4, .seed = seed, .faults = Faults::random(seed, 4)});
//   SimReport report = world.run([&](std::unique_ptr<Transport> transport, Rank rank) { … });
//   EXPECT_TRUE(report.ok()) << report.describe();
//
// For code on Endpoints there is run_sim.hpp. What a rank's code must keep to, so that a run can be replayed: it sleeps
// and reads time only through its Transport, starts no threads, and depends on nothing else that differs from run to
// run (addresses, real time, unordered containers keyed by addresses).
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/fabric/sim/network.hpp"
#include "paceline/fabric/sim/options.hpp"
#include "paceline/fabric/sim/trace.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

namespace sim {
class Core;
}

struct SimReport {
  enum class Outcome {
    finished,  // the rank's function returned
    threw,     // … or threw `error`
    killed,    // the rank died, as its faults wanted
    stopped,   // a deadlock or a limit ended the run; `error` is an Error{timeout} that says who waits since when
  };
  struct OfRank {
    Outcome outcome = Outcome::finished;
    std::exception_ptr error;
    TimePoint ended = kSimStart;
    std::uint64_t calls = 0;  // of its Transport
  };

  std::uint64_t seed = 0;
  std::string faults;
  std::vector<OfRank> ranks;
  Duration duration{0};  // virtual
  std::uint64_t trace_hash = 0;
  SimCounters counters;
  std::string stopped;  // why the simulator ended the run; empty if it did not
  std::vector<SimTraceEntry> log;

  // All ranks finished.
  bool ok() const;
  // Rethrows what a rank threw, the earliest in virtual time; else why the run was stopped; else returns.
  void rethrow() const;
  // Seed, faults, how each rank ended, and the last events.
  std::string describe() const;
};

class SimWorld {
 public:
  explicit SimWorld(SimOptions options);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // Runs `body` once for each rank, and returns when all have ended. The Transport must not outlive the body. Once.
  using Body = std::function<void(std::unique_ptr<Transport> transport, Rank rank)>;
  SimReport run(const Body& body);

  // From inside the body of `rank`: it computes for so long, or longer if it is slow.
  void compute(Rank rank, Duration work);

 private:
  void run_rank(const Body& body, Rank rank, SimReport::OfRank& report);
  SimReport::OfRank ended(Rank rank, std::exception_ptr error) const;

  std::unique_ptr<sim::Core> core_;
  bool has_run_ = false;
};

}  // namespace paceline
