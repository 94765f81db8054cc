// What the tests of this folder start when a job is to move something.
//
//   hosts_worker bytes OPERATION BYTES   runs it once; each host's first rank says what its network device has sent
//   hosts_worker link                    says what lies between the ranks, and how long a byte takes to rank 1 and back
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/launch/join.hpp"

using paceline::Algorithm;
using paceline::Communicator;
using paceline::Job;

namespace {

// By all devices of this host but loopback, from the ninth column of /proc/net/dev.
std::uint64_t bytes_sent_by_devices() {
  std::ifstream file("/proc/net/dev");
  std::uint64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.find(" lo:") != std::string::npos) continue;
    std::uint64_t column[9] = {};
    char* at = line.data() + colon + 1;
    for (auto& value : column) value = std::strtoull(at, &at, 10);
    sum += column[8];
  }
  return sum;
}

void operate(Communicator& world, const std::string& operation, std::size_t bytes) {
  const Communicator::Options how{.algorithm = Algorithm::hierarchical};
  std::vector<float> data(bytes / sizeof(float), 1);
  if (operation == "allreduce") {
    world.allreduce(paceline::view(data), paceline::ReduceOp::sum, how);
  } else if (operation == "broadcast") {
    world.broadcast(paceline::view(data), 0, how);
  } else {
    std::vector<float> all(data.size() * static_cast<std::size_t>(world.size()));
    world.allgather(paceline::view(data), paceline::view(all), how);
  }
}

void count_bytes(Job& job, const std::string& operation, std::size_t bytes) {
  Communicator world(job.endpoint(), paceline::Group::world(job.size()));
  world.barrier();
  const std::uint64_t before = bytes_sent_by_devices();
  world.barrier();
  operate(world, operation, bytes);
  world.barrier();
  if (job.local_rank() == 0) fmt::print("sent {}\n", bytes_sent_by_devices() - before);
  world.barrier();
}

void measure_link(Job& job) {
  Communicator world(job.endpoint(), paceline::Group::world(job.size()));
  const auto& facts = job.endpoint().facts();
  fmt::print("host {} of rank {}, network '{}'\n", facts.hosts[static_cast<std::size_t>(job.rank())], job.rank(),
             facts.network);
  std::vector<std::uint8_t> byte(1);
  world.barrier();
  const auto begin = std::chrono::steady_clock::now();
  world.broadcast(paceline::view(byte), 0);
  world.broadcast(paceline::view(byte), 1);
  const std::chrono::duration<double, std::milli> span = std::chrono::steady_clock::now() - begin;
  if (job.rank() == 0) fmt::print("there and back {}\n", static_cast<int>(span.count()));
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    Job job = paceline::join(argc, argv);
    if (words.size() == 3 && words[0] == "bytes") {
      count_bytes(job, words[1], std::stoul(words[2]));
    } else {
      measure_link(job);
    }
  } catch (const paceline::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 3;
  }
}
