// How long an allreduce takes on many hosts: the real collective code, on up to 1,024 simulated ranks, each with
// one port of a given rate to a switch. Prints one JSON line.
//
// Note [Shrinking]
// A thousand vectors of 40 MiB do not fit into memory. So the vector that really moves is shrunk by a power of two, and
// so is everything that is counted in bytes: the rate of the ports, the payload and header of a frame (to one byte at
// least), segments. Messages, frames, rounds and waiting stay as they are; each byte stands for as many. Of a power of
// two, because blocks begin on cache lines: other factors would cut them into other shares of a frame.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <numeric>

#include "bench/contestant.hpp"
#include "paceline/cli/collective_bench.hpp"
#include "paceline/collective/catalogue.hpp"
#include "paceline/collective/communicator.hpp"
#include "paceline/collective/layout.hpp"
#include "paceline/fabric/sim/run_sim.hpp"
#include "paceline/fabric/ucx/ucx_wire.hpp"

namespace {

using namespace paceline;
using namespace std::chrono_literals;

struct Question {
  int ranks = 8;
  std::size_t bytes = 1 << 20;
  std::string algorithm = "ring";
  double bytes_per_second = 125e6;
  double latency_us = 50;
  int operations = 1;
  std::size_t most_bytes = 256 << 10;  // of a rank's vector that really moves
};

Question parse(int argc, char** argv) {
  Question question;
  std::string bytes = "1MiB", most = "256KiB";
  CLI::App app("Time of an allreduce on simulated hosts, as one JSON line");
  app.add_option("--ranks", question.ranks, "Hosts, with one rank each")->check(CLI::Range(1, 1024));
  app.add_option("--bytes", bytes, "Of a rank's vector");
  app.add_option("--algorithm", question.algorithm, "Of the allreduce");
  app.add_option("--rate", question.bytes_per_second, "Bytes per second of a host's port, in each direction")
      ->check(CLI::Range(1.0, 1e12));
  app.add_option("--latency", question.latency_us, "Microseconds from port to port")->check(CLI::Range(0.0, 1e6));
  app.add_option("--operations", question.operations, "One after the other")->check(CLI::Range(1, 1000));
  app.add_option("--most", most, "Shrink vectors above this, and with them everything that is counted in bytes");
  try {
    app.parse(argc, argv);
    question.bytes = parse_size(bytes);
    question.most_bytes = std::max<std::size_t>(parse_size(most), 64);
    algorithm_named(question.algorithm, Collective::allreduce);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    std::exit(2);
  }
  return question;
}

Schedule schedule_of(const Question& question) {
  const Way* way = find_way(Collective::allreduce, algorithm_named(question.algorithm, Collective::allreduce));
  Places places{.ranks = question.ranks, .several_hosts = question.ranks > 1};
  for (int rank = 0; rank < question.ranks; ++rank) places.teams.push_back({rank});
  return way->make(places, 0, 0);
}

// See Note [Shrinking].
struct World {
  std::size_t shrink = 1;
  std::size_t elements = 0;
  SimOptions sim;
  CommunicatorOptions communicator;
};

World world_of(const Question& question) {
  const std::size_t shrink = std::bit_ceil((question.bytes + question.most_bytes - 1) / question.most_bytes);
  const auto shrunk = [&](std::size_t bytes) { return std::max<std::size_t>((bytes + shrink - 1) / shrink, 1); };
  const SimLink link{
      .latency = Duration(static_cast<Duration::rep>(question.latency_us * 1e3)),
      .jitter = 0ns,
      .bytes_per_second = 1e15,  // the ports are what limits
      .header_bytes = shrunk(ucx::kHeaderBytes),
      .capacity_frames = ucx::kFramesInFlight,
      .capacity_bytes = SIZE_MAX / 2,
  };
  World world;
  world.shrink = shrink;
  world.elements = shrunk(question.bytes) / sizeof(float);
  world.sim = {.ranks = question.ranks,
               .link = link,
               .port_bytes_per_second = question.bytes_per_second / static_cast<double>(shrink),
               .max_payload = shrunk(ucx::kMaxPayload) / sizeof(float) * sizeof(float),
               .eager_window = shrunk(kEagerWindow),
               .shared_memory = false,
               .max_time = 1000h,
               .max_calls = ~std::uint64_t{0},
               .log_events = 0};
  world.communicator = {.late_after = 1000h,
                        .warn = [](const std::string&) {},
                        .segment_bytes = shrunk(usual_segment(schedule_of(question).blocks, true))};
  return world;
}

// Seconds of virtual time per operation, the mean over the ranks. The first sum is checked.
double measure(const Question& question, const World& world) {
  std::vector<double> times(static_cast<std::size_t>(question.ranks));
  const CollectiveOptions how{.algorithm = algorithm_named(question.algorithm, Collective::allreduce)};
  const SimReport report = run_sim(world.sim, [&](Endpoint& endpoint) {
    Communicator all(endpoint, Group::world(question.ranks), world.communicator);
    std::vector<float> data(world.elements);
    bench::fill(data, endpoint.rank());
    all.barrier();
    const TimePoint begin = endpoint.clock().now();
    all.allreduce(view(data), ReduceOp::sum, how);
    bench::check_sum(data, endpoint.rank(), question.ranks);
    std::fill(data.begin(), data.end(), 0.0f);
    for (int i = 1; i < question.operations; ++i) all.allreduce(view(data), ReduceOp::sum, how);
    times[static_cast<std::size_t>(endpoint.rank())] =
        std::chrono::duration<double>(endpoint.clock().now() - begin).count() / question.operations;
  });
  report.rethrow();
  return std::accumulate(times.begin(), times.end(), 0.0) / question.ranks;
}

}  // namespace

int main(int argc, char** argv) {
  const Question question = parse(argc, argv);
  const World world = world_of(question);
  const auto begin = std::chrono::steady_clock::now();
  try {
    const double seconds = measure(question, world);
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print(R"({{"op":"allreduce","contestant":"sim","algorithm":"{}","ranks":{},"bytes":{},"shrink":{},)"
               R"("rate":{},"latency_us":{},"median_us":{:.3f},"took_s":{:.2f},"memory_mib":{}}})"
               "\n",
               question.algorithm, question.ranks, question.bytes, world.shrink, question.bytes_per_second,
               question.latency_us, seconds * 1e6, took.count(), used.ru_maxrss / 1024);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
