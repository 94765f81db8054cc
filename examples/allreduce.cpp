// Every worker brings a vector, and all get the average.
//
//   paceline run -n 2 example_allreduce
#include <fmt/format.h>

#include <algorithm>

#include "paceline/collective/communicator.hpp"
#include "paceline/launch/join.hpp"

int main(int argc, char** argv) try {
  auto job = paceline::join(argc, argv);  // 1. meet the other workers
  paceline::Communicator world(job.endpoint(), job.group());

  paceline::Arena arena = job.endpoint().allocate(25'000'000 * sizeof(float));  // 2. memory that all can reach
  const auto gradient = arena.as<float>();
  std::fill(gradient.begin(), gradient.end(), static_cast<float>(job.rank() + 1));

  world.allreduce(paceline::view(gradient), paceline::ReduceOp::average, {.name = "gradient"});  // 3. reduce
  fmt::print("worker {} of {} on {}: 25 million numbers, the average of the first is {}\n", job.rank(), job.size(),
             job.host(), gradient.front());

  const auto begin = job.endpoint().clock().now();
  for (int step = 0; step < 20; ++step) world.allreduce(paceline::view(gradient), paceline::ReduceOp::average);
  const double ms = paceline::seconds(job.endpoint().clock().now() - begin) * 1e3 / 20;
  if (job.rank() == 0) fmt::print("20 more times: {:.1f} ms each, {:.1f} GB/s\n", ms, 0.1 / ms * 1e3);
} catch (const paceline::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
