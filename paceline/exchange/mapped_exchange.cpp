#include "paceline/exchange/mapped_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/collective/layout.hpp"
#include "paceline/core/check.hpp"
#include "paceline/core/finite.hpp"
#include "paceline/core/reduce.hpp"

namespace paceline {
namespace {

// What is looked at for bad values, then summed, before it leaves the nearest cache.
constexpr std::size_t kBlockBytes = 16 << 10;

// In bytes from the block's begin.
std::size_t first_bad(const TensorView& block) {
  const std::size_t size = size_of(block.dtype);
  std::size_t at = 0;
  while (all_finite({block.begin() + at, 1, block.dtype})) at += size;
  return at;
}

}  // namespace

MappedExchange::MappedExchange(Communicator& communicator, ExchangeOptions options)
    : Exchange(communicator, options.trace),
      options_(std::move(options)),
      gradients_(map_ranges(options_.gradients)),
      parameters_(map_ranges(options_.parameters)) {
  communicator_.barrier({.name = "all have mapped"});  // before anybody can fail and release what others are mapping
}

std::vector<MappedExchange::Range> MappedExchange::map_ranges(const std::vector<TensorView>& ranges) {
  Endpoint& endpoint = communicator_.endpoint();
  std::vector<Range> mapped;
  for (const TensorView& range : ranges) {
    const auto here = endpoint.locate(range.data, range.bytes());
    CHECK(here.has_value(), "an exchange's ranges lie in arenas");
    std::vector<std::int64_t> own = {static_cast<std::int64_t>(here->region), static_cast<std::int64_t>(here->offset)};
    std::vector<std::int64_t> all(2 * static_cast<std::size_t>(communicator_.size()));
    communicator_.allgather(view(own), view(all), {.name = "where gradients lie"});
    Range& result = mapped.emplace_back(Range{range, {}});
    for (int index = 0; index < communicator_.size(); ++index) {
      const Rank rank = communicator_.group().at(index);
      const auto offset = static_cast<std::size_t>(all[2 * static_cast<std::size_t>(index) + 1]);
      const auto region = endpoint.map(rank, static_cast<std::uint64_t>(all[2 * static_cast<std::size_t>(index)]));
      const bool self = index == communicator_.rank();
      if (!self && (!region || offset > region->size() || range.bytes() > region->size() - offset))
        throw Error(Code::peer_lost, rank, endpoint.describe(rank) + " has released the memory of its gradients");
      result.of_rank.push_back(self ? range.begin() : region->data() + offset);
    }
  }
  return mapped;
}

const MappedExchange::Range& MappedExchange::range_with(const std::vector<Range>& ranges, const std::byte* data) {
  const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const Range& range) {
    return data >= range.own.begin() && data < range.own.begin() + range.own.bytes();
  });
  CHECK(found != ranges.end(), "memory outside the exchange's ranges");
  return *found;
}

Slice MappedExchange::slice_of(const Bucket& bucket, int rank) const {
  const std::size_t bytes = bucket.gradient.bytes();
  const Extent extent = Layout::of_vector(bytes, communicator_.size(), bytes).find(output(rank), 0);
  return {extent.offset, extent.offset + extent.bytes};
}

void MappedExchange::submit(const Bucket& bucket, std::int64_t step) {
  const TimePoint start = now();
  in_flight_.push_back({communicator_.start_barrier({.name = bucket.name}), start, step, bucket});
  communicated_ += now() - start;
  record(in_flight_.back(), Activity::communicate, start, now() - start);
  progress();
}

void MappedExchange::progress() {
  if (in_flight_.empty()) return;
  communicator_.progress();
  reduce_ready();
}

void MappedExchange::reduce_ready() {
  while (!in_flight_.empty() && in_flight_.front().handle.test()) {
    in_flight_.front().handle.wait();  // throws if it failed
    reduce(in_flight_.front());
    in_flight_.pop_front();
  }
}

void MappedExchange::settle(std::int64_t step) {
  settled_through_ = step;
  while (!in_flight_.empty() && in_flight_.front().step <= step) {
    wait_for(in_flight_.front());
    reduce(in_flight_.front());
    in_flight_.pop_front();
  }
}

void MappedExchange::reduce(InFlight& flight) {
  const TimePoint start = now();
  const Slice slice = own_slice(flight.bucket);
  for (std::size_t at = slice.first; at < slice.last && !bad_; at += kBlockBytes) {
    if (!reduce_block(flight, at, std::min(kBlockBytes, slice.last - at))) break;
  }
  communicator_.endpoint().count_direct((slice.last - slice.first) *
                                        static_cast<std::size_t>(communicator_.size() - 1));
  settled_.push_back({flight.bucket, flight.step});
  const TimePoint end = now();
  communicated_ += end - start;
  record(flight, Activity::communicate, start, end - start);
  record(flight, Activity::reduction, flight.start, end - flight.start);
}

// False if a rank has a bad value there; nothing has been written then.
bool MappedExchange::reduce_block(const InFlight& flight, std::size_t first, std::size_t bytes) {
  const Bucket& bucket = flight.bucket;
  const Range& range = range_with(gradients_, bucket.gradient.begin());
  const std::size_t at = static_cast<std::size_t>(bucket.gradient.begin() - range.own.begin()) + first;
  const DType dtype = bucket.gradient.dtype;
  sources_.clear();
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    std::byte* source = range.of_rank[static_cast<std::size_t>(rank)] + at;
    sources_.push_back(source);
    const TensorView block{source, static_cast<std::int64_t>(bytes / size_of(dtype)), dtype};
    if (options_.check_finite && !all_finite(block)) {
      bad_ = BadValue{.rank = rank, .bucket = bucket.index, .offset = first + first_bad(block), .step = flight.step};
      return false;
    }
  }
  std::byte* const targets[] = {bucket.gradient.begin() + first};
  fold({.op = ReduceOp::average,
        .dtype = dtype,
        .sources = sources_,
        .targets = targets,
        .bytes = bytes,
        .divide_by = communicator_.size()});
  return true;
}

void MappedExchange::timed_barrier(const char* name) {
  InFlight flight{communicator_.start_barrier({.name = name}), now(), 0, {.index = -1, .name = name, .gradient = {}}};
  wait_for(flight);
}

void MappedExchange::finish(std::int64_t step) {
  settle(step);
  if (settled_.empty() || settled_.front().step > step) return;
  timed_barrier("slices are reduced");
  const TimePoint start = now();
  for (; !settled_.empty() && settled_.front().step <= step; settled_.pop_front())
    copy_slices_of_others(settled_.front().bucket);
  communicated_ += now() - start;
  timed_barrier("slices are everywhere");
}

void MappedExchange::copy_slices_of_others(const Bucket& bucket) {
  const Range& range = range_with(gradients_, bucket.gradient.begin());
  const auto at = static_cast<std::size_t>(bucket.gradient.begin() - range.own.begin());
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const Slice slice = slice_of(bucket, rank);
    if (rank == communicator_.rank() || slice.first == slice.last) continue;
    std::memcpy(bucket.gradient.begin() + slice.first, range.of_rank[static_cast<std::size_t>(rank)] + at + slice.first,
                slice.last - slice.first);
    communicator_.endpoint().count_direct(slice.last - slice.first);
  }
}

void MappedExchange::publish(const std::byte* data, std::size_t bytes) {
  const Range& range = range_with(parameters_, data);
  const auto at = static_cast<std::size_t>(data - range.own.begin());
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    if (rank != communicator_.rank()) std::memcpy(range.of_rank[static_cast<std::size_t>(rank)] + at, data, bytes);
  }
  communicator_.endpoint().count_direct(bytes * static_cast<std::size_t>(communicator_.size() - 1));
}

std::vector<int> MappedExchange::drifted(const std::byte* data, std::size_t bytes) const {
  const Range& range = range_with(parameters_, data);
  const auto at = static_cast<std::size_t>(data - range.own.begin());
  std::vector<int> ranks;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    if (rank == communicator_.rank()) continue;
    if (std::memcmp(range.of_rank[static_cast<std::size_t>(rank)] + at, data, bytes) != 0) ranks.push_back(rank);
  }
  return ranks;
}

void MappedExchange::end_publishing() {
  while (!settled_.empty() && settled_.front().step <= settled_through_) settled_.pop_front();
  timed_barrier("parameters are published");
}

}  // namespace paceline
