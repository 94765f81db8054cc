// What an outside project does first: includes installed headers, links the installed libraries, and runs alone and
// as a job of two threads.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/fabric/run_ranks.hpp"
#include "paceline/launch/join.hpp"

int main(int argc, char** argv) {
  auto job = paceline::join(argc, argv);
  paceline::Communicator alone(job.endpoint(), job.group());
  std::vector<float> numbers = {1, 2, 3};
  alone.allreduce(paceline::view(numbers));
  if (job.size() != 1 || numbers[2] != 3) return EXIT_FAILURE;

  std::atomic<bool> right = true;
  paceline::run_ranks(2, [&right](paceline::Endpoint& endpoint) {
    paceline::Communicator world(endpoint, paceline::Group::world(2));
    std::vector<double> sum(1000, endpoint.rank() + 1);
    world.allreduce(paceline::view(sum));
    if (sum.front() != 3 || sum.back() != 3) right = false;
  });
  std::puts(right ? "an outside program uses paceline" : "wrong sum");
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
