// Times collective operations over an Endpoint: verify, warm up, agree on the number of iterations, measure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "paceline/cli/measure.hpp"
#include "paceline/collective/communicator.hpp"
#include "paceline/collective/descriptor.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

struct BenchOptions {
  Collective op = Collective::allreduce;
  // Of a rank's buffer: the vector of allreduce and broadcast, the output of allgather, the input of alltoall. Rounded
  // down to what the ranks can share in whole f32s.
  std::vector<std::size_t> bytes = {};
  std::string algorithm = "auto";
  std::string memory = "arena";
  double seconds = 0.5;  // per size
  bool handle = false;
  int tensors = 1;  // an allreduce or broadcast of each of so many equal parts, in place of one of the whole
  std::size_t segment_bytes = CommunicatorOptions{}.segment_bytes;
};

struct BenchPoint {
  std::size_t bytes = 0;
  int ranks = 0;
  std::string algorithm;  // that was taken
  Timing timing;
};

// Throw Error{invalid} on a name that is not known, with those that are.
Collective collective_named(const std::string& text);
Algorithm algorithm_named(const std::string& text, Collective op);
void check_bench_options(const BenchOptions& options);

// Called by all ranks; `report` on each of them, once per size. Throws Error if a result is wrong.
void bench_collective(Endpoint& endpoint, const BenchOptions& options,
                      const std::function<void(const BenchPoint&)>& report);

}  // namespace paceline
