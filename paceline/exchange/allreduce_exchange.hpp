// AllreduceExchange: each bucket is one allreduce, by any algorithm. Every rank ends up with all of every bucket.
#pragma once

#include "paceline/exchange/exchange.hpp"

namespace paceline {

class AllreduceExchange final : public Exchange {
 public:
  AllreduceExchange(Communicator& communicator, Algorithm algorithm, Trace* trace)
      : Exchange(communicator, trace),
        algorithm_(algorithm),
        lends_(communicator.spans_hosts() && communicator.can_lend()) {}

  void submit(const Bucket& bucket, std::int64_t step) override;
  void progress() override;
  bool lend() override;
  void recall() override { communicator_.recall(); }
  using Exchange::finish;
  using Exchange::settle;
  void settle(std::int64_t step) override { finish(step); }
  void finish(std::int64_t step) override;
  Slice slice_of(const Bucket& bucket, int /*rank*/) const override { return {0, bucket.gradient.bytes()}; }
  void begin_publishing() override {}
  void publish(const std::byte* /*data*/, std::size_t /*bytes*/) override {}  // all ranks compute the same
  std::vector<int> drifted(const std::byte* /*data*/, std::size_t /*bytes*/) const override { return {}; }
  void end_publishing() override {}
  bool shares_update() const override { return false; }

 private:
  void retire_done();

  const Algorithm algorithm_;
  // Between hosts, where a peer that computes keeps the others waiting. On one host the cores are busy anyway.
  const bool lends_;
};

}  // namespace paceline
