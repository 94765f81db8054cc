// MappedExchange: all ranks' gradients lie in memory that every rank has mapped. Each rank owns one slice of every
// bucket.
//
// Note [Who may touch what]. A bucket's barrier says that its gradient is complete on all ranks. From then on rank r
// reads slice r of every rank's bucket, sums in rank order, and writes the average into its own copy of slice r, which
// nobody else reads before the next barrier. settle() ends there. Then either finish(): a barrier, everybody copies the
// others' slices, a barrier. Or the caller updates the parameters of its slices and publishes them into every rank's
// parameters, and a barrier ends the step. In both cases the last barrier also says that nobody reads this rank's
// gradient of that step any more; buckets of later steps lie elsewhere and go their own way. Its price in memory
// traffic, beside that of an allreduce and an update of everything on every rank, is in decision 7. (Splitting the
// optimizer over the ranks: ZeRO, Rajbhandari et al. 2020.)
#pragma once

#include <vector>

#include "paceline/exchange/exchange.hpp"

namespace paceline {

class MappedExchange final : public Exchange {
 public:
  MappedExchange(Communicator& communicator, ExchangeOptions options);

  void submit(const Bucket& bucket, std::int64_t step) override;
  void progress() override;
  using Exchange::finish;
  using Exchange::settle;
  void settle(std::int64_t step) override;
  void finish(std::int64_t step) override;
  Slice slice_of(const Bucket& bucket, int rank) const override;
  void begin_publishing() override { timed_barrier("parameters may be written"); }
  void publish(const std::byte* data, std::size_t bytes) override;
  std::vector<int> drifted(const std::byte* data, std::size_t bytes) const override;
  void end_publishing() override;
  bool shares_update() const override { return true; }
  bool checks_finite() const override { return options_.check_finite; }

 private:
  // A range of this rank's memory, and where the same range lies of every rank, in this rank's address space.
  struct Range {
    TensorView own;
    std::vector<std::byte*> of_rank;
  };
  std::vector<Range> map_ranges(const std::vector<TensorView>& ranges);
  static const Range& range_with(const std::vector<Range>& ranges, const std::byte* data);
  void reduce_ready();
  void reduce(InFlight& flight);
  bool reduce_block(const InFlight& flight, std::size_t first, std::size_t bytes);
  void copy_slices_of_others(const Bucket& bucket);
  void timed_barrier(const char* name);

  const ExchangeOptions options_;
  const std::vector<Range> gradients_;
  const std::vector<Range> parameters_;
  struct Settled {
    Bucket bucket;
    std::int64_t step;
  };
  std::deque<Settled> settled_;       // steps that have not ended: what finish() must bring to all
  std::int64_t settled_through_ = 0;  // the step of the last settle()
  std::vector<const std::byte*> sources_;
};

}  // namespace paceline
