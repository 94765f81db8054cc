#include "paceline/exchange/exchange.hpp"

#include <algorithm>

#include "paceline/core/check.hpp"
#include "paceline/exchange/allreduce_exchange.hpp"
#include "paceline/exchange/mapped_exchange.hpp"

namespace paceline {

// `allreduce` is shm on one host and ordered on several, for every bucket, though another algorithm may be quicker for
// one: the sums' bits must not depend on the size of the buckets, nor on where the ranks are.
Algorithm algorithm_of(const Plan& plan, const Communicator& communicator) {
  const Algorithm asked = plan.algorithm();
  if (asked != Algorithm::automatic) return asked;
  return communicator.shares_memory() ? Algorithm::shm : Algorithm::ordered;
}

void Exchange::record(const InFlight& flight, Activity activity, TimePoint start, Duration length) {
  if (trace_ == nullptr) return;
  trace_->add(
      {.start = start, .length = length, .step = flight.step, .bucket = flight.bucket.index, .activity = activity});
}

void Exchange::wait_for(InFlight& flight) {
  const TimePoint start = now();
  const Duration waited_before = communicator_.waited();
  flight.handle.wait();
  const Duration length = now() - start;
  const Duration waited = communicator_.waited() - waited_before;
  waited_ += waited;
  communicated_ += length - waited;
  // A rank first waits for the others to come, then moves its bytes: near enough to draw it so.
  record(flight, Activity::wait, start, waited);
  record(flight, Activity::communicate, start + waited, length - waited);
}

std::unique_ptr<Exchange> make_exchange(Communicator& communicator, const Plan& plan, ExchangeOptions options) {
  // Of when=delayed: who submits knows how late it waits.
  CHECK(plan.split == "data" && !plan.parameters_meet() && plan.what == "dense", "a plan's every word is acted upon");
  const Algorithm algorithm = algorithm_of(plan, communicator);
  if (algorithm == Algorithm::shm && communicator.size() > 1)
    return std::make_unique<MappedExchange>(communicator, std::move(options));
  return std::make_unique<AllreduceExchange>(communicator, algorithm, options.trace);
}

std::size_t bucket_bytes_for(const Communicator& communicator, const Plan& plan) {
  constexpr std::size_t kLeast = std::size_t{256} << 10;
  constexpr std::size_t kMost = std::size_t{32} << 20;
  constexpr double kFixedShare = 0.02;
  // Between hosts buckets travel side by side, so what a message takes on its way is lost once and not for each of
  // them. What counts is that the first one leaves early, and that every rank's part of it is still a large message.
  constexpr std::size_t kLeastOfARank = std::size_t{256} << 10;
  if (communicator.spans_hosts())
    return std::clamp(static_cast<std::size_t>(communicator.size()) * kLeastOfARank, 4 * kLeast, kMost);
  const Algorithm algorithm = algorithm_of(plan, communicator);
  const auto price = [&](std::size_t bytes) { return communicator.price_of(Collective::allreduce, algorithm, bytes); };
  const double per_byte = price(kMost) / static_cast<double>(kMost);
  std::size_t bytes = kLeast;
  while (bytes < kMost && price(bytes) > (1 + kFixedShare) * per_byte * static_cast<double>(bytes)) bytes *= 2;
  return bytes;
}

}  // namespace paceline
