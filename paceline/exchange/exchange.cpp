#include "paceline/exchange/exchange.hpp"

#include <utility>

namespace paceline {

namespace {

// On one host `allreduce` is shm for every bucket, though another algorithm may be quicker for a small one: the sums'
// bits must not depend on the size of the buckets.
Algorithm algorithm_of(const Plan& plan, const Communicator& communicator) {
  const bool mapped = communicator.endpoint().facts().mapped_memory;
  const Algorithm asked = plan.algorithm();
  return asked == Algorithm::automatic && mapped ? Algorithm::shm : asked;
}

}  // namespace

Exchange::Exchange(Communicator& communicator, const Plan& plan, Trace* trace)
    : communicator_(communicator), algorithm_(algorithm_of(plan, communicator)), trace_(trace) {}

void Exchange::submit(const Bucket& bucket, std::int64_t step) {
  if (communicator_.size() == 1) return;  // the average over one rank is there already
  const TimePoint start = now();
  in_flight_.push_back({communicator_.start_allreduce(bucket.gradient, ReduceOp::average,
                                                      {.name = bucket.name, .algorithm = algorithm_}),
                        start, step, bucket.index});
  communicator_.progress();
  const Duration length = now() - start;
  communicated_ += length;
  record(in_flight_.back(), Activity::communicate, start, length);
  retire_done();
}

void Exchange::progress() {
  if (in_flight_.empty()) return;
  const TimePoint start = now();
  communicator_.progress();
  communicated_ += now() - start;
  retire_done();
}

void Exchange::finish() {
  for (InFlight& flight : in_flight_) {
    const TimePoint start = now();
    const Duration waited_before = communicator_.waited();
    flight.handle.wait();
    // A rank first waits for the others to come, then reduces its share: near enough to draw it so.
    const TimePoint end = now();
    const Duration waited = communicator_.waited() - waited_before;
    waited_ += waited;
    communicated_ += end - start - waited;
    record(flight, Activity::wait, start, waited);
    record(flight, Activity::communicate, start + waited, end - start - waited);
    record(flight, Activity::reduction, flight.start, end - flight.start);
  }
  in_flight_.clear();
}

// Only from the front: a later bucket that is done already is found when those before it are.
void Exchange::retire_done() {
  std::size_t done = 0;
  for (; done < in_flight_.size(); ++done) {
    InFlight& flight = in_flight_[done];
    if (!flight.handle.test()) break;
    flight.handle.wait();  // throws if it failed
    record(flight, Activity::reduction, flight.start, now() - flight.start);
  }
  in_flight_.erase(in_flight_.begin(), in_flight_.begin() + static_cast<std::ptrdiff_t>(done));
}

void Exchange::record(const InFlight& flight, Activity activity, TimePoint start, Duration length) {
  if (trace_ == nullptr) return;
  trace_->add({.start = start, .length = length, .step = flight.step, .bucket = flight.bucket, .activity = activity});
}

std::size_t bucket_bytes_for(const Communicator& communicator, const Plan& plan) {
  constexpr std::size_t kLeast = std::size_t{256} << 10;
  constexpr std::size_t kMost = std::size_t{32} << 20;
  constexpr double kFixedShare = 0.02;
  const Algorithm algorithm = algorithm_of(plan, communicator);
  const auto price = [&](std::size_t bytes) { return communicator.price_of(Collective::allreduce, algorithm, bytes); };
  const double per_byte = price(kMost) / static_cast<double>(kMost);
  std::size_t bytes = kLeast;
  while (bytes < kMost && price(bytes) > (1 + kFixedShare) * per_byte * static_cast<double>(bytes)) bytes *= 2;
  return bytes;
}

}  // namespace paceline
