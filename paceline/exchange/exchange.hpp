// Exchange: the one place where the answers of a Plan meet the gradient. Buckets are submitted as they become complete,
// in the same order on every rank, and travel while the caller goes on computing.
//
//   auto exchange = make_exchange(communicator, plan, {…});
//   exchange->submit({.index = 0, .name = "fc2.weight", .gradient = view}, step);    // in a backward hook
//   exchange->settle();                     // this rank's slices hold the average over all ranks
//   exchange->finish();                     // … all of every bucket does
//
// Who settles can update the parameters of its own slices and publish these, instead of having all gradients brought to
// all ranks first: half the bytes. Buckets of later steps may be submitted before those of earlier ones are waited for:
// settle(step) and finish(step) leave them on their way. Nothing runs behind the caller's back: buckets move while it
// is inside a call, or has lent the exchange. One thread owns an Exchange. The Communicator outlives it. Buckets lie in
// the ranges given at the start, which are memory from Endpoint::allocate, laid out alike on all ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
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

// A part of a bucket, in bytes from its begin.
struct Slice {
  std::size_t first = 0;
  std::size_t last = 0;
};

// A NaN or an infinity in a rank's gradient.
struct BadValue {
  int rank = 0;  // in the group
  int bucket = 0;
  std::size_t offset = 0;  // in bytes from the bucket's begin
  std::int64_t step = 0;   // that the bucket was submitted in
};

struct ExchangeOptions {
  std::vector<TensorView> gradients = {};   // the ranges that buckets lie in
  std::vector<TensorView> parameters = {};  // the ranges to publish
  bool check_finite = false;                // only an exchange that checks as it goes does; see checks_finite
  Trace* trace = nullptr;
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Steps never count down.
  virtual void submit(const Bucket& bucket, std::int64_t step) = 0;
  // Moves what can be moved now, unless lent.
  virtual void progress() = 0;
  // Between hosts: another thread moves what was submitted, until recall() or until the next call of this Exchange or
  // of any Communicator of its Endpoint. The Endpoint itself must not be used meanwhile. False if nothing was lent.
  virtual bool lend() { return false; }
  virtual void recall() {}
  // Both return when everything that was submitted in `step` or before has arrived so far. They throw the Error of what
  // failed.
  virtual void settle(std::int64_t step) = 0;
  virtual void finish(std::int64_t step) = 0;
  void settle() { settle(kEveryStep); }
  void finish() { finish(kEveryStep); }
  // Part of a bucket that is a rank's to update after settle(); all of it where every rank gets everything.
  virtual Slice slice_of(const Bucket& bucket, int rank) const = 0;
  Slice own_slice(const Bucket& bucket) const { return slice_of(bucket, communicator_.rank()); }
  // Returns when all ranks are here, and nobody computes with the parameters any more that are about to be written to
  // all. Only who settles an earlier step than the last needs it: settling the last one says so too.
  virtual void begin_publishing() = 0;
  // After settle(), with own slices of parameters changed: writes `bytes` of this rank's parameters at `data` to all
  // ranks. end_publishing() returns when all ranks' are there, and ends what was settled.
  virtual void publish(const std::byte* data, std::size_t bytes) = 0;
  // Before that: the ranks whose parameters there are not bit for bit this rank's. Costs little, since the memory that
  // is about to be written has to be fetched anyway.
  virtual std::vector<int> drifted(const std::byte* data, std::size_t bytes) const = 0;
  virtual void end_publishing() = 0;

  // True if own_slice is less than a bucket.
  virtual bool shares_update() const = 0;
  // Whether non-finite values are looked for here. One that was found stays found, and its bucket unreduced.
  virtual bool checks_finite() const { return false; }
  const std::optional<BadValue>& bad_value() const { return bad_; }

  // In all: moving and reducing, and waiting for other ranks.
  Duration communicated() const { return communicated_; }
  Duration waited() const { return waited_; }

 protected:
  static constexpr std::int64_t kEveryStep = std::numeric_limits<std::int64_t>::max();
  struct InFlight {
    Handle handle;
    TimePoint start;
    std::int64_t step;
    Bucket bucket;
  };
  Exchange(Communicator& communicator, Trace* trace) : communicator_(communicator), trace_(trace) {}
  void record(const InFlight& flight, Activity activity, TimePoint start, Duration length);
  TimePoint now() const { return communicator_.endpoint().clock().now(); }
  // Waits and counts the time, into `waited_` what was waiting and into `communicated_` the rest.
  void wait_for(InFlight& flight);

  Communicator& communicator_;
  Trace* const trace_;
  std::deque<InFlight> in_flight_;  // in the order of submission
  std::optional<BadValue> bad_;
  Duration communicated_{};
  Duration waited_{};
};

// For `waited` and the trace to tell, the Communicator must have been made with time_waits. A collective call.
std::unique_ptr<Exchange> make_exchange(Communicator& communicator, const Plan& plan, ExchangeOptions options);

// Which algorithm the plan's allreduces take: with where=allreduce, and where nothing is said of it, shm on one host
// and ordered on several.
Algorithm algorithm_of(const Plan& plan, const Communicator& communicator);

// The smallest bucket whose fixed costs are lost beside its bytes: on one host by the communicator's cost model,
// between hosts by the number of ranks.
std::size_t bucket_bytes_for(const Communicator& communicator, const Plan& plan);

}  // namespace paceline
