// extend_worker MORE: joins its job, extends it by MORE ranks and says what came of it. All ranks, old and further
// ones, greet each other; then the further ones, if there are any, serve a table to which each worker adds its number
// plus 1 in each of three steps.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "paceline/launch/extend.hpp"
#include "paceline/launch/join.hpp"
#include "paceline/launch/rank_threads.hpp"
#include "paceline/server/serve.hpp"
#include "paceline/server/session.hpp"
#include "paceline/server/table.hpp"

namespace paceline {
namespace {

constexpr Tag kGreeting{77, 1};
constexpr std::uint64_t kRows = 50'000;

void greet_all(Endpoint& endpoint) {
  const auto size = static_cast<std::size_t>(endpoint.size());
  std::vector<Rank> heard(size, -1);
  const Rank own = endpoint.rank();
  std::vector<Pending> pending;
  for (Rank peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == own) continue;
    pending.push_back(endpoint.receive(peer, kGreeting,
                                       std::as_writable_bytes(std::span(&heard[static_cast<std::size_t>(peer)], 1))));
    pending.push_back(endpoint.send(peer, kGreeting, std::as_bytes(std::span(&own, 1))));
  }
  for (Pending& one : pending) one.wait();
  for (Rank peer = 0; peer < endpoint.size(); ++peer) {
    if (peer != own && heard[static_cast<std::size_t>(peer)] != peer)
      throw Error(Code::mismatch, peer, "a wrong greeting");
  }
}

std::vector<Rank> ranks_from(Rank first, int count) {
  std::vector<Rank> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

// What the table's rows are after three steps under bsp, if they are all the same; else -1.
float train(Endpoint& endpoint, int workers, int servers) {
  Session session(endpoint, {.servers = ranks_from(workers, servers), .worker = endpoint.rank(), .workers = workers});
  Table table = session.open({.name = "w", .kind = TableSpec::Kind::dense, .rows = kRows});
  std::vector<float> values(kRows);
  const std::vector<float> changes(kRows, static_cast<float>(endpoint.rank() + 1));
  for (int step = 0; step < 3; ++step) {
    table.inc({0, kRows}, changes);
    session.clock();
    table.get({0, kRows}, values);
  }
  session.leave();
  for (const float value : values) {
    if (value != values[0]) return -1;
  }
  return values[0];
}

void run(int argc, char** argv) {
  Job job = join(argc, argv);
  const int more = argc > 1 ? std::atoi(argv[1]) : 0;
  const int workers = job.size();
  Extension extension = extend(job, more);
  const std::size_t held = extension.more.size();
  RankThreads threads(std::move(extension.more), [&](Endpoint& endpoint) {
    greet_all(endpoint);
    serve(endpoint, {.workers = ranks_from(0, workers), .index = endpoint.rank() - workers, .servers = more});
  });
  greet_all(*extension.own);
  const float sum = more > 0 ? train(*extension.own, workers, more) : 0;
  std::printf("rank %d of %d holds %zu more, sum %g\n", extension.own->rank(), extension.own->size(), held,
              static_cast<double>(sum));
  extension.own->close();
  threads.join();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    paceline::run(argc, argv);
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 3;
  }
}
