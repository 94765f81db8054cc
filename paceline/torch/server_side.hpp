// ServerSide: the servers of a plan with where=server:N, as threads of the workers' processes, and this worker's
// Endpoint among workers and servers. All workers of the Job make one, and it outlives whoever uses its Endpoint.
//
// A worker that is done stays until the others are: they may need its servers. If the Job was started with servers in
// processes of their own, there are no threads, and nobody to stay for.
#pragma once

#include <memory>
#include <vector>

#include "paceline/exchange/plan.hpp"
#include "paceline/launch/extend.hpp"
#include "paceline/launch/rank_threads.hpp"

namespace paceline {

class ServerSide {
 public:
  // nullptr if the plan has no servers. A collective call.
  static std::unique_ptr<ServerSide> of(Job& job, const Plan& plan);
  ~ServerSide();

  Endpoint& endpoint() { return *extension_.own; }
  const std::vector<Rank>& ranks() const { return ranks_; }

 private:
  ServerSide(Job& job, const Plan& plan);

  std::vector<Rank> ranks_;  // of the servers
  Extension extension_;
  RankThreads threads_;
};

}  // namespace paceline
