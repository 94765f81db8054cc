#include "paceline/exchange/allreduce_exchange.hpp"

namespace paceline {

bool AllreduceExchange::lend() {
  if (!lends_ || communicator_.lent() || in_flight_.empty()) return false;
  communicator_.lend();
  return true;
}

void AllreduceExchange::submit(const Bucket& bucket, std::int64_t step) {
  if (communicator_.size() == 1) return;  // the average over one rank is there already
  const TimePoint start = now();
  in_flight_.push_back({communicator_.start_allreduce(bucket.gradient, ReduceOp::average,
                                                      {.name = bucket.name, .algorithm = algorithm_}),
                        start, step, bucket});
  communicator_.progress();
  const Duration length = now() - start;
  communicated_ += length;
  record(in_flight_.back(), Activity::communicate, start, length);
  retire_done();
}

void AllreduceExchange::progress() {
  if (in_flight_.empty() || communicator_.lent()) return;
  const TimePoint start = now();
  communicator_.progress();
  communicated_ += now() - start;
  retire_done();
}

void AllreduceExchange::finish(std::int64_t step) {
  while (!in_flight_.empty() && in_flight_.front().step <= step) {
    InFlight& flight = in_flight_.front();
    wait_for(flight);
    record(flight, Activity::reduction, flight.start, flight.handle.ended() - flight.start);
    in_flight_.pop_front();
  }
}

// Only from the front: a later bucket that is done already is found when those before it are.
void AllreduceExchange::retire_done() {
  while (!in_flight_.empty() && in_flight_.front().handle.test()) {
    InFlight& flight = in_flight_.front();
    flight.handle.wait();  // throws if it failed
    record(flight, Activity::reduction, flight.start, flight.handle.ended() - flight.start);
    in_flight_.pop_front();
  }
}

}  // namespace paceline
