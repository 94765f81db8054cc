// The generators: what rank `rank` of n does in each algorithm. Pure rank arithmetic. Sources and prices stand with the
// definitions; docs/algorithms.md has them in one table.
#pragma once

#include <vector>

#include "paceline/collective/schedule.hpp"

namespace paceline::schedules {

// Ranks that are near each other: disjoint, together all ranks.
using Teams = std::vector<std::vector<int>>;
// Consecutive ranks in teams of `width`.
Teams consecutive_teams(int n, int width);
// hosts[r]: the number of rank r's host.
Teams teams_by_host(const std::vector<int>& hosts);
// The same schedule with rank order[i] in the place of rank i.
Schedule along(const std::vector<int>& order, Schedule schedule);

// allreduce, in place on `output`.
Schedule naive(int n, int rank);
Schedule ring(int n, int rank);
Schedule butterfly(int n, int rank);
Schedule halving_doubling(int n, int rank);
Schedule tree(int n, int rank);
Schedule star(int n, int rank);
Schedule ordered(int n, int rank);
Schedule shm(int n, int rank);
Schedule hierarchical(const Teams& teams, int rank);

// allgather: output block r is rank r's; this rank's own is there already.
Schedule ring_allgather(int n, int rank);
Schedule pairwise_allgather(int n, int rank);
Schedule shm_allgather(int n, int rank);
Schedule hierarchical_allgather(const Teams& teams, int rank);

// reduce_scatter: input block r goes to rank r; the result is output block 0, summed in rank order.
Schedule pairwise_reduce_scatter(int n, int rank);

// alltoall: input block r goes to rank r, output block r comes from it.
Schedule pairwise_alltoall(int n, int rank);
// Input block i goes to neighbours[i], output block i comes from it.
Schedule neighbours(const std::vector<int>& neighbours);

// Rooted; output is one block except where said. Ranks other than the root keep their data.
Schedule tree_broadcast(int n, int rank, int root);
Schedule chain_broadcast(int n, int rank, int root);
Schedule star_broadcast(int n, int rank, int root);
Schedule shm_broadcast(int n, int rank, int root);
Schedule hierarchical_broadcast(const Teams& teams, int rank, int root);
Schedule tree_reduce(int n, int rank, int root);
Schedule star_reduce(int n, int rank, int root);
// Root's output block r comes from rank r's input block 0.
Schedule star_gather(int n, int rank, int root);
// Root's input block r goes to rank r's output block 0.
Schedule star_scatter(int n, int rank, int root);

Schedule dissemination_barrier(int n, int rank);

}  // namespace paceline::schedules
