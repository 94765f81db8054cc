// Exchanges between hosts: ranks are threads that talk through UCX.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "paceline/exchange/exchange.hpp"
#include "paceline/fabric/ucx/run_hosts.hpp"

namespace paceline {
namespace {

// Whether the bucket of a step was there before its owner came back to it after this long.
bool arrives_within(Exchange& exchange, Endpoint& endpoint, const Trace& trace, const TensorView& gradient,
                    Duration span, std::int64_t step) {
  exchange.submit({.index = 0, .name = "bucket", .gradient = gradient}, step);
  EXPECT_TRUE(exchange.lend());
  EXPECT_FALSE(exchange.lend()) << "it is lent already";
  std::this_thread::sleep_for(span);
  const TimePoint back = endpoint.clock().now();
  exchange.finish();
  const auto events = trace.events();
  const auto end = std::find_if(events.rbegin(), events.rend(),
                                [](const TraceEvent& event) { return event.activity == Activity::reduction; });
  EXPECT_NE(end, events.rend());
  return end != events.rend() && end->start + end->length < back;
}

TEST(HostExchange, BucketsMoveWhileItIsLent) {
  ucx::run_hosts(2, 1, [](Endpoint& endpoint) {
    Trace trace(1000);
    auto communicator = Communicator::beside(endpoint, Group::world(2), "lent", {.time_waits = true});
    std::vector<float> values(1 << 20, static_cast<float>(endpoint.rank()));
    const auto exchange = make_exchange(communicator, Plan{}, {.gradients = {view(values)}, .trace = &trace});
    std::vector<int> arrived = {0};
    std::int64_t step = 0;
    // A busy machine may take longer.
    for (Duration span = std::chrono::milliseconds(50); arrived[0] < 2 && step < 9; span *= 2) {
      arrived[0] = arrives_within(*exchange, endpoint, trace, view(values), span, step++) ? 1 : 0;
      communicator.allreduce(view(arrived));
    }
    EXPECT_EQ(arrived[0], 2);
    EXPECT_FALSE(exchange->lend()) << "nothing is under way";
    EXPECT_EQ(values, std::vector<float>(values.size(), 0.5f));
  });
}

TEST(HostExchange, FirstBucketsAreSmall) {
  ucx::run_hosts(2, 1, [](Endpoint& endpoint) {
    const Communicator communicator(endpoint, Group::world(2));
    EXPECT_EQ(bucket_bytes_for(communicator, Plan{}), std::size_t{1} << 20);
  });
}

}  // namespace
}  // namespace paceline
