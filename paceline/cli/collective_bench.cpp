#include "paceline/cli/collective_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "paceline/collective/catalogue.hpp"
#include "paceline/collective/communicator.hpp"

namespace paceline {
namespace {

struct FreeMemory {
  void operator()(float* memory) const { std::free(memory); }
};

// Floats in an arena or on the heap.
class Floats {
 public:
  Floats(Endpoint& endpoint, const std::string& memory, std::size_t count) {
    const std::size_t bytes = (std::max<std::size_t>(count, 1) * sizeof(float) + 63) / 64 * 64;
    if (memory == "arena") {
      arena_ = endpoint.allocate(bytes);
      data_ = arena_.as<float>().first(count);
    } else {
      heap_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
      if (heap_ == nullptr)
        throw Error(Code::system, "there is not enough memory for buffers of " + format_bytes(bytes));
      data_ = {heap_.get(), count};
    }
  }
  std::span<float> get() const { return data_; }

 private:
  Arena arena_;
  std::unique_ptr<float, FreeMemory> heap_;
  std::span<float> data_;
};

// Small whole numbers, different for every rank and position: their sums are exact in whatever order they are added.
float sample(std::size_t i, int rank) { return static_cast<float>(i % 13 + 1) * static_cast<float>(rank + 1); }

class Point {
 public:
  Point(Communicator& world, const BenchOptions& options, std::size_t bytes)
      : world_(world),
        options_(options),
        ranks_(static_cast<std::size_t>(world.size())),
        block_(bytes / sizeof(float) / ranks_),
        in_place_(options.op == Collective::allreduce || options.op == Collective::broadcast),
        output_(world.endpoint(), options.memory, in_place_ ? bytes / sizeof(float) : block_ * ranks_),
        input_(world.endpoint(), options.memory,
               in_place_                             ? 0
               : options.op == Collective::allgather ? block_
                                                     : block_ * ranks_),
        call_{.name = {}, .algorithm = algorithm_named(options.algorithm, options.op)} {}

  std::size_t bytes() const { return output_.get().size_bytes(); }

  void operator()() {
    if (options_.handle) {
      for (int i = 0; i < options_.tensors; ++i) handles_.push_back(start(i));
      for (Handle& handle : handles_) handle.wait();
      handles_.clear();
    } else {
      for (int i = 0; i < options_.tensors; ++i) call(i);
    }
  }

  // Every element is looked at once before anything is timed.
  void verify() {
    fill();
    (*this)();
    const auto got = output_.get();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == expected(i)) continue;
      throw Error(Code::invalid, world_.rank(),
                  fmt::format("rank {}: the result of {} is wrong at element {} of {}: {} instead of {}", world_.rank(),
                              name(options_.op), i, got.size(), got[i], expected(i)));
    }
    // Zeros stay zeros however often they are summed, where anything else would soon be infinite.
    std::fill(got.begin(), got.end(), 0.0f);
  }

 private:
  void fill() {
    const auto source = in_place_ ? output_.get() : input_.get();
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = sample(i, world_.rank());
  }

  float expected(std::size_t i) const {
    const auto n = static_cast<float>(ranks_);
    switch (options_.op) {
      case Collective::allreduce: return sample(i, 0) * n * (n + 1) / 2;
      case Collective::broadcast: return sample(i, 0);
      case Collective::allgather: return sample(i % block_, static_cast<int>(i / block_));
      default:
        return sample(static_cast<std::size_t>(world_.rank()) * block_ + i % block_, static_cast<int>(i / block_));
    }
  }

  // The whole output if there is one tensor.
  std::span<float> tensor(int i) const {
    const std::size_t tensors = static_cast<std::size_t>(options_.tensors), number = static_cast<std::size_t>(i);
    const std::size_t count = output_.get().size();
    const std::size_t begin = count * number / tensors;
    return output_.get().subspan(begin, count * (number + 1) / tensors - begin);
  }

  void call(int i) {
    switch (options_.op) {
      case Collective::allreduce: return world_.allreduce(view(tensor(i)), ReduceOp::sum, call_);
      case Collective::broadcast: return world_.broadcast(view(tensor(i)), 0, call_);
      case Collective::allgather: return world_.allgather(view(input_.get()), view(output_.get()), call_);
      default: return world_.alltoall(view(input_.get()), view(output_.get()), call_);
    }
  }

  Handle start(int i) {
    switch (options_.op) {
      case Collective::allreduce: return world_.start_allreduce(view(tensor(i)), ReduceOp::sum, call_);
      case Collective::broadcast: return world_.start_broadcast(view(tensor(i)), 0, call_);
      case Collective::allgather: return world_.start_allgather(view(input_.get()), view(output_.get()), call_);
      default: return world_.start_alltoall(view(input_.get()), view(output_.get()), call_);
    }
  }

  Communicator& world_;
  const BenchOptions& options_;
  const std::size_t ranks_;
  const std::size_t block_;  // elements per rank
  const bool in_place_;
  const Floats output_;
  const Floats input_;
  const CollectiveOptions call_;
  std::vector<Handle> handles_;
};

}  // namespace

Collective collective_named(const std::string& text) {
  for (const Collective op :
       {Collective::allreduce, Collective::allgather, Collective::broadcast, Collective::alltoall}) {
    if (text == name(op)) return op;
  }
  throw Error(Code::invalid,
              "there is no benchmark of '" + text + "'; there is allreduce, allgather, broadcast, alltoall");
}

Algorithm algorithm_named(const std::string& text, Collective op) {
  if (text == name(Algorithm::automatic)) return Algorithm::automatic;
  std::string known = "auto";
  for (const Algorithm algorithm : algorithms_of(op)) {
    if (text == name(algorithm)) return algorithm;
    known += fmt::format(", {}", name(algorithm));
  }
  throw Error(Code::invalid, fmt::format("{} has no algorithm '{}'; it has {}", name(op), text, known));
}

void check_bench_options(const BenchOptions& options) {
  const Algorithm algorithm = algorithm_named(options.algorithm, options.op);
  if (algorithm == Algorithm::shm && options.memory == "heap") {
    throw Error(Code::invalid, "the shm algorithm needs --memory arena");
  }
  if (options.tensors > 1 && options.op != Collective::allreduce && options.op != Collective::broadcast) {
    throw Error(Code::invalid, fmt::format("--tensors is for allreduce and broadcast, not for {}", name(options.op)));
  }
}

void bench_collective(Endpoint& endpoint, const BenchOptions& options,
                      const std::function<void(const BenchPoint&)>& report) {
  Communicator world(endpoint, Group::world(endpoint.size()), {.segment_bytes = options.segment_bytes});
  const auto average = [&world](double value) {
    std::vector<double> mean = {value};
    world.allreduce(view(mean), ReduceOp::average);
    return mean[0];
  };
  for (const std::size_t bytes : options.bytes) {
    Point point(world, options, bytes);
    point.verify();
    const std::string algorithm(name(world.last_algorithm()));
    average(0);
    const Timing timing = measure(point, average, options.seconds);
    report({.bytes = point.bytes(), .ranks = world.size(), .algorithm = algorithm, .timing = timing});
  }
}

}  // namespace paceline
