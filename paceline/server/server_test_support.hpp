// For tests of server and clients: a job of workers and servers, as threads of this process or in virtual time.
#pragma once

#include <functional>
#include <numeric>
#include <vector>

#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/sim/run_sim.hpp"
#include "paceline/server/serve.hpp"
#include "paceline/server/session.hpp"
#include "paceline/server/table.hpp"

namespace paceline::server_test {

struct TestJob {
  int workers = 1;
  int servers = 1;
  Policy policy = {};
  bool remember_keys = true;
  FilterOptions filter = {};

  std::vector<Rank> worker_ranks() const {
    std::vector<Rank> ranks(static_cast<std::size_t>(workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }
  std::vector<Rank> server_ranks() const {
    std::vector<Rank> ranks(static_cast<std::size_t>(servers));
    std::iota(ranks.begin(), ranks.end(), workers);
    return ranks;
  }
  SessionOptions session(int worker) const {
    return {.servers = server_ranks(),
            .worker = worker,
            .workers = workers,
            .policy = policy,
            .remember_keys = remember_keys};
  }
};

// A rank's part: workers run `body` and leave, servers serve.
inline void run_rank(const TestJob& job, Endpoint& endpoint, const std::function<void(Session&, Endpoint&)>& body) {
  if (endpoint.rank() >= job.workers) {
    serve(endpoint, {.workers = job.worker_ranks(),
                     .index = endpoint.rank() - job.workers,
                     .servers = job.servers,
                     .policy = job.policy,
                     .server_ranks = job.server_ranks()});
    return;
  }
  Session session(endpoint, job.session(endpoint.rank()));
  body(session, endpoint);
  session.leave();
}

inline void run_job(const TestJob& job, const std::function<void(Session&, Endpoint&)>& body) {
  run_ranks(job.workers + job.servers, [&](Endpoint& endpoint) { run_rank(job, endpoint, body); });
}

}  // namespace paceline::server_test
