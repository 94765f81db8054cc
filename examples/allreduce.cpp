// Every worker brings a vector, and all get the average.
//
//   paceline run -n 2 example_allreduce
#include <fmt/format.h>

#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/launch/join.hpp"

int main(int argc, char** argv) {
  auto job = paceline::join(argc, argv);  // 1. meet the other workers
  paceline::Communicator world(job.endpoint(), job.group());

  paceline::Arena arena = job.endpoint().allocate(25'000'000 * sizeof(float));  // 2. memory that all of them can reach
  const auto gradient = arena.as<float>();
  std::fill(gradient.begin(), gradient.end(), static_cast<float>(job.rank() + 1));

  const auto begin = job.endpoint().clock().now();
  world.allreduce(paceline::view(gradient), paceline::ReduceOp::average, {.name = "gradient"});  // 3. reduce
  const double ms = paceline::seconds(job.endpoint().clock().now() - begin) * 1e3;

  fmt::print("worker {} of {}: the average of {} numbers, 100 MB, is {} after {:.1f} ms\n", job.rank(), job.size(),
             gradient.size(), gradient.front(), ms);
}
