#include "paceline/torch/server_side.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <numeric>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/server/serve.hpp"

namespace paceline {

std::unique_ptr<ServerSide> ServerSide::of(Job& job, const Plan& plan) {
  check(plan);
  if (plan.route() != Where::server) return nullptr;
  return std::unique_ptr<ServerSide>(new ServerSide(job, plan));
}

ServerSide::ServerSide(Job& job, const Plan& plan)
    : ranks_(static_cast<std::size_t>(plan.servers())), extension_(extend(job, plan.servers())) {
  std::iota(ranks_.begin(), ranks_.end(), job.size());
  std::vector<Rank> workers(static_cast<std::size_t>(job.size()));
  std::iota(workers.begin(), workers.end(), 0);
  threads_ = RankThreads(std::move(extension_.more), [workers, plan](Endpoint& endpoint) {
    serve(endpoint, {.workers = workers,
                     .index = endpoint.rank() - static_cast<int>(workers.size()),
                     .servers = plan.servers(),
                     .policy = plan.policy()});
  });
}

ServerSide::~ServerSide() {
  extension_.own->close();
  try {
    threads_.join();
  } catch (const Error& error) {
    // Workers have learned only that their server is gone.
    std::fputs(fmt::format("paceline: a server has failed: {}\n", error.what()).c_str(), stderr);
  }
}

}  // namespace paceline
