// Exchange: the one place where the answers of a Plan meet the gradient. Buckets are submitted as they become complete,
// in the same order on every rank, and travel while the caller goes on computing; after finish() each holds the average
// over all ranks.
//
//   Exchange exchange(communicator, plan);
//   exchange.submit({.index = 0, .name = "fc2.weight", .gradient = view}, step);    // in a backward hook
//   exchange.finish();                                                               // before the optimizer
//
// Buckets lie in memory from Endpoint::allocate. Nothing runs behind the caller's back: buckets move while it is inside
// submit, progress or finish. One thread owns an Exchange. The Communicator outlives it, a bucket's memory the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/core/trace.hpp"
#include "paceline/exchange/plan.hpp"

namespace paceline {

// A contiguous range of the gradient.
struct Bucket {
  int index = 0;
  std::string name;  // of its first tensor: for errors
  TensorView gradient;
};

class Exchange {
 public:
  // `trace` may be nullptr. For `waited` to count, the Communicator must have been made with time_waits.
  Exchange(Communicator& communicator, const Plan& plan, Trace* trace = nullptr);

  void submit(const Bucket& bucket, std::int64_t step);
  // Moves what can be moved now.
  void progress();
  // Returns when everything that was submitted has arrived. Throws the Error of what failed.
  void finish();

  // In all: moving and reducing, and waiting for other ranks.
  Duration communicated() const { return communicated_; }
  Duration waited() const { return waited_; }

 private:
  struct InFlight {
    Handle handle;
    TimePoint start;
    std::int64_t step;
    int bucket;
  };
  void retire_done();
  void record(const InFlight& flight, Activity activity, TimePoint start, Duration length);
  TimePoint now() const { return communicator_.endpoint().clock().now(); }

  Communicator& communicator_;
  const Algorithm algorithm_;
  Trace* const trace_;
  std::vector<InFlight> in_flight_;  // in the order of submission
  Duration communicated_{};
  Duration waited_{};
};

// The smallest bucket whose fixed costs are lost beside its bytes, by the communicator's cost model.
std::size_t bucket_bytes_for(const Communicator& communicator, const Plan& plan);

}  // namespace paceline
