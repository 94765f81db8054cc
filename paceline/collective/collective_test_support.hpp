// For the tests of collectives: one operation on one rank with its buffers, the call, and the check against a reference
// that is computed element by element; and the list of all operations worth trying. The values are small whole numbers,
// so that every order of additions gives the same result in every type.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "paceline/collective/catalogue.hpp"
#include "paceline/collective/communicator.hpp"
#include "paceline/core/random.hpp"

namespace paceline::collective_test {

enum class Where { heap, arena, mixed };  // mixed: the middle rank's memory is not in an arena

// A rank's buffers, each between two guards that nobody may write to.
class Memory {
 public:
  explicit Memory(Endpoint& endpoint, std::size_t bytes = 2 << 20)
      : arena_(endpoint.allocate(bytes)),
        heap_(bytes),
        mixed_(endpoint.rank() == endpoint.size() / 2 ? Where::heap : Where::arena) {}

  TensorView take(Where where, DType dtype, std::int64_t count, std::size_t shift) {
    if (where == Where::mixed) where = mixed_;
    const std::span<std::byte> all = where == Where::arena ? arena_.memory() : std::span(heap_);
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    const std::size_t begin = used_ + kGuard + shift;
    used_ = (begin + bytes + 2 * kGuard) / kGuard * kGuard;
    EXPECT_LE(used_, all.size());
    guards_.push_back(all.subspan(begin - kGuard, kGuard));
    guards_.push_back(all.subspan(begin + bytes, kGuard));
    for (const auto& guard : {guards_[guards_.size() - 2], guards_.back()})
      std::fill(guard.begin(), guard.end(), kGuardByte);
    return {all.data() + begin, count, dtype, Device::host};
  }

  // Gives all buffers back; whether their guards are as they were.
  bool reset() {
    const bool intact = std::all_of(guards_.begin(), guards_.end(), [](std::span<const std::byte> guard) {
      return std::all_of(guard.begin(), guard.end(), [](std::byte byte) { return byte == kGuardByte; });
    });
    guards_.clear();
    used_ = 0;
    return intact;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xa5};

  Arena arena_;
  std::vector<std::byte> heap_;
  Where mixed_;
  std::size_t used_ = 0;
  std::vector<std::span<std::byte>> guards_;
};

// ---- elements of any type as numbers

template <class T>
void put(const TensorView& view, std::int64_t i, T value) {
  std::memcpy(view.begin() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}
template <class T>
T take(const TensorView& view, std::int64_t i) {
  T value;
  std::memcpy(&value, view.begin() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

inline void store(const TensorView& view, std::int64_t i, double value) {
  switch (view.dtype) {
    case DType::f16: return put(view, i, to_f16(static_cast<float>(value)));
    case DType::bf16: return put(view, i, to_bf16(static_cast<float>(value)));
    case DType::f32: return put(view, i, static_cast<float>(value));
    case DType::f64: return put(view, i, value);
    case DType::i8: return put(view, i, static_cast<std::int8_t>(value));
    case DType::u8: return put(view, i, static_cast<std::uint8_t>(value));
    case DType::i32: return put(view, i, static_cast<std::int32_t>(value));
    case DType::i64: return put(view, i, static_cast<std::int64_t>(value));
  }
}

inline double load(const TensorView& view, std::int64_t i) {
  switch (view.dtype) {
    case DType::f16: return static_cast<double>(to_float(take<f16_t>(view, i)));
    case DType::bf16: return static_cast<double>(to_float(take<bf16_t>(view, i)));
    case DType::f32: return static_cast<double>(take<float>(view, i));
    case DType::f64: return take<double>(view, i);
    case DType::i8: return take<std::int8_t>(view, i);
    case DType::u8: return take<std::uint8_t>(view, i);
    case DType::i32: return take<std::int32_t>(view, i);
    case DType::i64: return static_cast<double>(take<std::int64_t>(view, i));
  }
  return 0;
}

// The average's quotient, as the type rounds it.
inline double quotient(DType dtype, double sum, int n) {
  const float single = static_cast<float>(sum) / static_cast<float>(n);
  switch (dtype) {
    case DType::f16: return static_cast<double>(to_float(to_f16(single)));
    case DType::bf16: return static_cast<double>(to_float(to_bf16(single)));
    case DType::f32: return static_cast<double>(single);
    case DType::f64: return sum / n;
    default: return std::trunc(sum / n);
  }
}

// ---- one operation

struct Case {
  Collective op = Collective::barrier;
  Algorithm algorithm = Algorithm::automatic;
  DType dtype = DType::f32;
  ReduceOp reduce = ReduceOp::sum;
  std::int64_t count = 0;
  int root = 0;
  Where where = Where::heap;
  std::uint64_t salt = 0;  // makes the values

  std::string text() const {
    const char* const wheres[] = {"heap", "arena", "mixed"};
    return fmt::format("{} {} {} {} of {}, root {}, {} memory, salt {}", name(op), name(algorithm), name(reduce),
                       name(dtype), count, root, wheres[static_cast<int>(where)], salt);
  }
  bool reduces() const {
    return op == Collective::allreduce || op == Collective::reduce || op == Collective::reduce_scatter;
  }

  // Element i of what `rank` brings along.
  double value(int rank, std::int64_t i) const {
    const std::uint64_t draw = mix(mix(salt, static_cast<std::uint64_t>(rank)), static_cast<std::uint64_t>(i));
    if (reduces() && reduce == ReduceOp::product)
      return draw % 3 == 0 && rank < 5 ? 2 : draw % 5 == 0 && dtype != DType::u8 ? -1 : 1;
    return static_cast<double>(draw % 7) - (dtype == DType::u8 ? 0 : 3);
  }
  double reduction(int n, std::int64_t i) const {
    double result = value(0, i);
    for (int rank = 1; rank < n; ++rank) {
      const double next = value(rank, i);
      switch (reduce) {
        case ReduceOp::sum:
        case ReduceOp::average: result += next; break;
        case ReduceOp::min: result = std::min(result, next); break;
        case ReduceOp::max: result = std::max(result, next); break;
        case ReduceOp::product: result *= next; break;
      }
    }
    return reduce == ReduceOp::average ? quotient(dtype, result, n) : result;
  }
  // allgatherv: elements from `rank`; some bring none.
  std::int64_t gathered(int rank) const { return rank % 3 == 1 ? 0 : count + rank; }
  // alltoallv: elements from one rank to another.
  std::int64_t exchanged(int from, int to) const { return (count + 3 * from + 5 * to) % (count + 2); }
  // A path through all ranks but the last of three or more, which is left alone.
  static std::vector<int> neighbours(int rank, int n) {
    const int path = n < 3 ? n : n - 1;
    std::vector<int> all;
    if (rank < path && rank > 0) all.push_back(rank - 1);
    if (rank + 1 < path) all.push_back(rank + 1);
    return all;
  }
};

class Trial {
 public:
  Trial(Communicator& group, Memory& memory, const Case& one)
      : group_(group), case_(one), n_(group.size()), rank_(group.rank()) {
    const std::int64_t all = n_ * one.count;
    const std::int64_t degree = std::ssize(neighbours_ = Case::neighbours(rank_, n_));
    switch (one.op) {
      case Collective::allreduce:
      case Collective::broadcast:
      case Collective::reduce: make(memory, 0, one.count); break;
      case Collective::reduce_scatter: make(memory, all, one.count); break;
      case Collective::allgather: make(memory, one.count, all); break;
      case Collective::gather: make(memory, one.count, rank_ == one.root ? all : 0); break;
      case Collective::scatter: make(memory, rank_ == one.root ? all : 0, one.count); break;
      case Collective::alltoall: make(memory, all, all); break;
      case Collective::neighbour_exchange: make(memory, degree * one.count, degree * one.count); break;
      case Collective::barrier: break;
      case Collective::allgatherv:
        for (int rank = 0; rank < n_; ++rank) in_counts_.push_back(one.gathered(rank));
        make(memory, one.gathered(rank_), sum(in_counts_));
        break;
      case Collective::alltoallv:
        for (int rank = 0; rank < n_; ++rank) in_counts_.push_back(one.exchanged(rank_, rank));
        for (int rank = 0; rank < n_; ++rank) out_counts_.push_back(one.exchanged(rank, rank_));
        make(memory, sum(in_counts_), sum(out_counts_));
        break;
    }
    if (one.op == Collective::allgather && one.salt % 2 == 0) {  // in place
      input_ = {output_.begin() + static_cast<std::size_t>(rank_) * input_.bytes(), one.count, one.dtype, Device::host};
    }
    for (std::int64_t i = 0; i < output_.count; ++i) store(output_, i, in_output() ? one.value(rank_, i) : 99);
    for (std::int64_t i = 0; i < input_.count; ++i) store(input_, i, one.value(rank_, i));
  }

  Handle start() {
    const CollectiveOptions o{.name = "tried", .algorithm = case_.algorithm};
    switch (case_.op) {
      case Collective::allreduce: return group_.start_allreduce(output_, case_.reduce, o);
      case Collective::reduce_scatter: return group_.start_reduce_scatter(input_, output_, case_.reduce, o);
      case Collective::allgather: return group_.start_allgather(input_, output_, o);
      case Collective::allgatherv: return group_.start_allgatherv(input_, output_, in_counts_, o);
      case Collective::broadcast: return group_.start_broadcast(output_, case_.root, o);
      case Collective::reduce: return group_.start_reduce(output_, case_.root, case_.reduce, o);
      case Collective::gather: return group_.start_gather(input_, output_, case_.root, o);
      case Collective::scatter: return group_.start_scatter(input_, output_, case_.root, o);
      case Collective::alltoall: return group_.start_alltoall(input_, output_, o);
      case Collective::alltoallv: return group_.start_alltoallv(input_, in_counts_, output_, out_counts_, o);
      case Collective::barrier: return group_.start_barrier(o);
      case Collective::neighbour_exchange: return group_.start_neighbour_exchange(input_, output_, neighbours_, o);
    }
    return {};
  }

  void call() {
    const CollectiveOptions o{.name = "tried", .algorithm = case_.algorithm};
    switch (case_.op) {
      case Collective::allreduce: return group_.allreduce(output_, case_.reduce, o);
      case Collective::reduce_scatter: return group_.reduce_scatter(input_, output_, case_.reduce, o);
      case Collective::allgather: return group_.allgather(input_, output_, o);
      case Collective::allgatherv: return group_.allgatherv(input_, output_, in_counts_, o);
      case Collective::broadcast: return group_.broadcast(output_, case_.root, o);
      case Collective::reduce: return group_.reduce(output_, case_.root, case_.reduce, o);
      case Collective::gather: return group_.gather(input_, output_, case_.root, o);
      case Collective::scatter: return group_.scatter(input_, output_, case_.root, o);
      case Collective::alltoall: return group_.alltoall(input_, output_, o);
      case Collective::alltoallv: return group_.alltoallv(input_, in_counts_, output_, out_counts_, o);
      case Collective::barrier: return group_.barrier(o);
      case Collective::neighbour_exchange: return group_.neighbour_exchange(input_, output_, neighbours_, o);
    }
  }

  // The first element that is not as it should be, as a sentence; empty if all are.
  std::string wrong() const {
    for (std::int64_t i = 0; i < output_.count; ++i) {
      const double got = load(output_, i), expected = expect(i);
      if (got != expected)
        return fmt::format("{}: rank {} of {} got {} as element {}, expected {}", case_.text(), rank_, n_, got, i,
                           expected);
    }
    for (std::int64_t i = 0; i < input_.count; ++i) {
      if (load(input_, i) != case_.value(rank_, i))
        return fmt::format("{}: rank {}'s input was changed", case_.text(), rank_);
    }
    return {};
  }

 private:
  bool in_output() const {
    return case_.op == Collective::allreduce || case_.op == Collective::reduce || case_.op == Collective::broadcast;
  }
  static std::int64_t sum(const std::vector<std::int64_t>& counts) {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) total += count;
    return total;
  }
  void make(Memory& memory, std::int64_t in, std::int64_t out) {
    const std::size_t shift = case_.salt % 3 * size_of(case_.dtype);
    input_ = memory.take(case_.where, case_.dtype, in, shift);
    output_ = memory.take(case_.where, case_.dtype, out, shift);
  }

  double expect(std::int64_t i) const {
    const std::int64_t count = case_.count;
    switch (case_.op) {
      case Collective::allreduce: return case_.reduction(n_, i);
      case Collective::reduce: return rank_ == case_.root ? case_.reduction(n_, i) : case_.value(rank_, i);
      case Collective::reduce_scatter: return case_.reduction(n_, rank_ * count + i);
      case Collective::broadcast: return case_.value(case_.root, i);
      case Collective::allgather:
      case Collective::gather: return case_.value(static_cast<int>(i / count), i % count);
      case Collective::scatter: return case_.value(case_.root, rank_ * count + i);
      case Collective::alltoall: return case_.value(static_cast<int>(i / count), rank_ * count + i % count);
      case Collective::neighbour_exchange: return expect_from_neighbour(i);
      case Collective::allgatherv: {
        int from = 0;
        for (; i >= in_counts_[static_cast<std::size_t>(from)]; ++from) i -= in_counts_[static_cast<std::size_t>(from)];
        return case_.value(from, i);
      }
      case Collective::alltoallv: {
        int from = 0;
        for (; i >= out_counts_[static_cast<std::size_t>(from)]; ++from)
          i -= out_counts_[static_cast<std::size_t>(from)];
        for (int to = 0; to < rank_; ++to) i += case_.exchanged(from, to);
        return case_.value(from, i);
      }
      case Collective::barrier: break;
    }
    return 0;
  }
  double expect_from_neighbour(std::int64_t i) const {
    const int from = neighbours_[static_cast<std::size_t>(i / case_.count)];
    const std::vector<int> theirs = Case::neighbours(from, n_);
    const auto block = std::find(theirs.begin(), theirs.end(), rank_) - theirs.begin();
    return case_.value(from, block * case_.count + i % case_.count);
  }

  Communicator& group_;
  const Case case_;
  const int n_;
  const int rank_;
  TensorView input_, output_;
  std::vector<int> neighbours_;
  std::vector<std::int64_t> in_counts_, out_counts_;
};

// ---- lists of operations

inline constexpr Collective kAllCollectives[] = {
    Collective::allreduce, Collective::reduce_scatter, Collective::allgather, Collective::allgatherv,
    Collective::broadcast, Collective::reduce,         Collective::gather,    Collective::scatter,
    Collective::alltoall,  Collective::alltoallv,      Collective::barrier,   Collective::neighbour_exchange};

// Segments so short that a few thousand elements make several.
inline constexpr std::size_t kShortSegment = 4096;
inline std::vector<std::int64_t> counts_for(int n) { return {0, 1, n - 1, n + 1, 1000, 5000}; }

// What `automatic` and every algorithm of the operation can be asked for. shm is tried by name on arenas only.
inline std::vector<Algorithm> algorithms_to_try(Collective op, bool mapped_memory) {
  std::vector<Algorithm> all = algorithms_of(op);
  if (!mapped_memory) std::erase(all, Algorithm::shm);
  all.push_back(Algorithm::automatic);
  return all;
}

inline Case random_case(Random& random, Collective op, Algorithm algorithm, int n) {
  const auto any = [&](std::size_t choices) { return random.below(choices); };
  const auto counts = counts_for(n);
  return {.op = op,
          .algorithm = algorithm,
          .dtype = kAllDTypes[any(std::size(kAllDTypes))],
          .reduce = kAllReduceOps[any(std::size(kAllReduceOps))],
          .count = counts[any(counts.size())],
          .root = static_cast<int>(any(static_cast<std::size_t>(n))),
          .where = algorithm == Algorithm::shm ? Where::arena : static_cast<Where>(any(3)),
          .salt = any(1000)};
}

// `each` draws for every algorithm of every operation.
inline std::vector<Case> sample_of_cases(int n, int each, std::uint64_t seed, bool mapped_memory = true) {
  Random random(seed, static_cast<std::uint64_t>(n));
  std::vector<Case> cases;
  for (const Collective op : kAllCollectives) {
    for (const Algorithm algorithm : algorithms_to_try(op, mapped_memory)) {
      for (int i = 0; i < each; ++i) cases.push_back(random_case(random, op, algorithm, n));
    }
  }
  return cases;
}

inline std::vector<Case> every_case(int n) {
  std::vector<Case> cases;
  for (const Case& base : sample_of_cases(n, 1, 1)) {
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp reduce : kAllReduceOps) {
        if (!base.reduces() && reduce != ReduceOp::sum) continue;
        for (const std::int64_t count : counts_for(n)) {
          for (const Where where : {Where::heap, Where::arena, Where::mixed}) {
            if (base.algorithm == Algorithm::shm && where != Where::arena) continue;
            Case one = base;
            one.dtype = dtype;
            one.reduce = reduce;
            one.count = count;
            one.where = where;
            one.salt = cases.size();
            one.root = static_cast<int>(cases.size()) % n;
            cases.push_back(one);
          }
        }
      }
    }
  }
  return cases;
}

// Runs all cases on one rank, one after the other, half of them by handle.
inline void try_cases(Endpoint& endpoint, const std::vector<Case>& cases) {
  Communicator world(endpoint, Group::world(endpoint.size()), {.segment_bytes = kShortSegment});
  Memory memory(endpoint);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text());
    Trial trial(world, memory, one);
    if (one.salt % 2 == 0) {
      trial.call();
    } else {
      trial.start().wait();
    }
    EXPECT_EQ(trial.wrong(), "");
    EXPECT_TRUE(memory.reset()) << "written beside a buffer";
  }
}

}  // namespace paceline::collective_test
