// For the tests of ranks that call different operations: what they call, and what must come of it on every rank, on any
// back end.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/core/check.hpp"

namespace paceline::collective_test {

// A value that ranks see alike, whether they are threads or processes forked after it was made.
template <class T>
class Shared {
 public:
  Shared()
      : value_(static_cast<T*>(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    CHECK(value_ != MAP_FAILED, "a page of shared memory");
    new (value_) T();
  }
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

using Body = std::function<void(Endpoint&)>;
using RunRanks = std::function<void(int n, const Body& body)>;

// What `call` throws, if it does.
template <class Function>
std::optional<Error> error_of(Function call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// All ranks have come this far, whatever has become of their groups.
inline void meet(Endpoint& endpoint, std::uint64_t number) {
  std::vector<Pending> pending;
  for (Rank peer = 0; peer < endpoint.size(); ++peer) {
    pending.push_back(endpoint.send(peer, {4711, number}, {}));
    pending.push_back(endpoint.receive(peer, {4711, number}, std::span<std::byte>{}));
  }
  for (Pending& one : pending) one.wait();
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// One rank, `odd`, calls something else than all others.
struct Mismatch {
  std::string name;
  std::function<void(Communicator&)> most;
  std::function<void(Communicator&)> odd;
  std::string most_text;  // both must be in the Error
  std::string odd_text;
};

struct Call {
  std::int64_t count = 10;
  DType dtype = DType::f32;
  int root = 0;
  ReduceOp reduce = ReduceOp::sum;
  CollectiveOptions options = {};
  bool in_arena = false;
};

// The memory of one operation: `blocks` times what the call says.
class Vector {
 public:
  Vector(Communicator& group, const Call& call, std::int64_t blocks = 1)
      : count_(call.count * blocks), dtype_(call.dtype) {
    const std::size_t bytes = static_cast<std::size_t>(count_) * size_of(dtype_);
    if (call.in_arena) {
      arena_ = group.endpoint().allocate(bytes);
    } else {
      heap_.resize(bytes);
    }
    data_ = call.in_arena ? arena_.memory().data() : heap_.data();
  }
  operator TensorView() const { return {data_, count_, dtype_, Device::host}; }

 private:
  std::int64_t count_;
  DType dtype_;
  Arena arena_;
  std::vector<std::byte> heap_;
  std::byte* data_;
};

inline auto allreduce(Call call) {
  return [call](Communicator& group) { group.allreduce(Vector(group, call), call.reduce, call.options); };
}
inline auto broadcast(Call call) {
  return [call](Communicator& group) { group.broadcast(Vector(group, call), call.root, call.options); };
}
inline auto reduce(Call call) {
  return [call](Communicator& group) { group.reduce(Vector(group, call), call.root, call.reduce, call.options); };
}
inline auto gather(Call call) {
  return [call](Communicator& group) {
    group.gather(Vector(group, call), Vector(group, call, group.size()), call.root, call.options);
  };
}
inline auto alltoall(Call call) {
  return [call](Communicator& group) {
    group.alltoall(Vector(group, call, group.size()), Vector(group, call, group.size()), call.options);
  };
}
// `extra` elements more to and from the rank after this one, and less from the others' view.
inline auto alltoallv(Call call, std::int64_t extra) {
  return [call, extra](Communicator& group) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(group.size()), call.count), in = out;
    out[static_cast<std::size_t>((group.rank() + 1) % group.size())] += extra;
    Call more = call;
    more.count = call.count * group.size() + extra;
    group.alltoallv(Vector(group, more), out, Vector(group, call, group.size()), in, call.options);
  };
}
inline auto barrier() {
  return [](Communicator& group) { group.barrier(); };
}
inline std::function<void(Communicator&)> both(std::function<void(Communicator&)> first,
                                               std::function<void(Communicator&)> second) {
  return [first, second](Communicator& group) {
    first(group);
    second(group);
  };
}

inline std::vector<Mismatch> all_mismatches() {
  constexpr std::int64_t kLarge = 100'000;
  return {
      {"AnotherOperation", allreduce({}), barrier(), "allreduce #", "barrier #"},
      {"AnotherLargeOperation", allreduce({.count = kLarge}), alltoall({.count = kLarge}), "allreduce #", "alltoall #"},
      {"AnotherType", allreduce({}), allreduce({.dtype = DType::f64}), "10 f32", "10 f64"},
      {"AnotherTypeOfTheSameSize", allreduce({}), allreduce({.dtype = DType::i32}), "10 f32", "10 i32"},
      {"AnotherCount", allreduce({}), allreduce({.count = 11}), "10 f32", "11 f32"},
      {"AnotherLargeCount", allreduce({.count = kLarge}), allreduce({.count = kLarge + 1}), "100000 f32", "100001 f32"},
      {"AnotherCountInArenas", allreduce({.count = kLarge, .in_arena = true}),
       allreduce({.count = 2 * kLarge, .in_arena = true}), "100000 f32", "200000 f32"},
      {"AnotherRoot", broadcast({}), broadcast({.root = 1}), "root 0", "root 1"},
      {"AnotherRootOfALargeBroadcast", broadcast({.count = kLarge}), broadcast({.count = kLarge, .root = 1}), "root 0",
       "root 1"},
      {"AnotherRootOfAReduction", reduce({}), reduce({.root = 1}), "root 0", "root 1"},
      {"AnotherRootOfAGather", gather({}), gather({.root = 1}), "root 0", "root 1"},
      {"AnotherReduction", allreduce({}), allreduce({.reduce = ReduceOp::max}), "sum", "max"},
      {"AnotherAlgorithm", allreduce({.options = {.algorithm = Algorithm::ring}}),
       allreduce({.options = {.algorithm = Algorithm::tree}}), "ring", "tree"},
      {"AnotherName", allreduce({.options = {.name = "weights"}}), allreduce({.options = {.name = "bias"}}),
       "'weights'", "'bias'"},
      {"ANameThatDiffersAtItsEnd", allreduce({.options = {.name = "model.encoder.layers.17.weights"}}),
       allreduce({.options = {.name = "model.encoder.layers.17.bias"}}), "allreduce", "allreduce"},
      {"AnotherOrder", both(allreduce({}), broadcast({.options = {.name = "b"}})),
       both(broadcast({.options = {.name = "b"}}), allreduce({})), "allreduce #", "broadcast #"},
      {"AnotherOrderOfSmallBroadcasts", both(broadcast({}), broadcast({.root = 1})),
       both(broadcast({.root = 1}), broadcast({})), "root 0", "root 1"},
      {"ACountThatItsReceiverDoesNotExpect", alltoallv({}, 0), alltoallv({}, 3), "alltoallv", "alltoallv"},
      {"ALargeCountThatItsReceiverDoesNotExpect", alltoallv({.count = 32'768}, 0), alltoallv({.count = 32'768}, kLarge),
       "alltoallv", "alltoallv"},
      {"ACountBelowWhatItsReceiverExpects", alltoallv({}, 0), alltoallv({}, -3), "alltoallv", "alltoallv"},
      {"ALargeCountBelowWhatItsReceiverExpects", alltoallv({.count = kLarge}, 0), alltoallv({.count = kLarge}, -kLarge),
       "alltoallv", "alltoallv"},
      {"MoreCalls", barrier(), both(both(broadcast({}), broadcast({})), allreduce({})), "barrier #", "broadcast #"},
  };
}

// Ranks that disagree get, within a second of the last one's call, an Error that says who called what; a rank that has
// left the operation before gets it at its next calls. Nothing works any more until they recover, and then all does.
inline void expect_mismatch(const RunRanks& run, int n, int odd, const Mismatch& mismatch) {
  constexpr int kRounds = 2;
  struct Times {
    std::array<std::array<TimePoint, 16>, kRounds> entered, failed;
  };
  const Shared<Times> times;
  run(n, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(n), {.segment_bytes = 64 << 10});
    for (std::size_t round = 0; round < kRounds; ++round) {
      const Clock& clock = endpoint.clock();
      const TimePoint entered = times->entered[round][static_cast<std::size_t>(endpoint.rank())] = clock.now();
      const auto error = error_of([&] {
        (endpoint.rank() == odd ? mismatch.odd : mismatch.most)(world);
        while (clock.now() < entered + std::chrono::seconds(2)) world.barrier();
      });
      times->failed[round][static_cast<std::size_t>(endpoint.rank())] = clock.now();
      if (!error) throw Error(Code::invalid, mismatch.name + ": nobody noticed");
      EXPECT_EQ(error->code(), Code::mismatch) << error->what();
      EXPECT_TRUE(contains(error->what(), mismatch.most_text) && contains(error->what(), mismatch.odd_text))
          << error->what();
      const auto later = error_of([&] { world.barrier(); });
      if (!later) throw Error(Code::invalid, mismatch.name + ": a broken group went on");
      EXPECT_EQ(later->code(), Code::mismatch);
      EXPECT_TRUE(contains(later->what(), "recover()")) << later->what();

      world = world.recover();
      EXPECT_EQ(world.size(), n);
      std::vector<int> ones(1000, 1);
      world.allreduce(view(ones));
      EXPECT_EQ(ones, std::vector<int>(1000, n));
      meet(endpoint, round);  // the next failure would also end what others have not completed yet
    }
  });
  for (std::size_t round = 0; round < kRounds; ++round) {
    const auto last = [n](const std::array<TimePoint, 16>& of_ranks) {
      return *std::max_element(of_ranks.begin(), of_ranks.begin() + n);
    };
    EXPECT_LT(seconds(last(times->failed[round]) - last(times->entered[round])), 1.0) << mismatch.name;
  }
}

}  // namespace paceline::collective_test
