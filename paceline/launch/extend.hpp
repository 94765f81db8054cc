// extend: further ranks for a job that has met, as threads of its processes, so that servers need no processes of their
// own.
//
//   Extension extension = extend(job, 2);               // a collective: all ranks of the job call it
//   RankThreads servers(std::move(extension.more), [&](Endpoint& endpoint) { serve(endpoint, …); });
//   Session session(*extension.own, …);
//
// The workers keep their numbers; rank size() + i is held by rank i % size(). The new endpoints know nothing of the
// job's own and may be used beside it, each by one thread. The job outlives them.
//
// A job that was started with servers in processes of their own (PACELINE_SERVERS, ServerSeat) has met them already:
// extend then returns the Endpoint among workers and servers, once, and no rank is held by a worker. Who uses it sees
// no difference. Throws Error{invalid} if their number is not `more`.
#pragma once

#include <memory>
#include <vector>

#include "paceline/launch/join.hpp"

namespace paceline {

struct Extension {
  std::unique_ptr<Endpoint> own;                // this worker's among the larger number
  std::vector<std::unique_ptr<Endpoint>> more;  // of the further ranks that this process holds
};
Extension extend(Job& job, int more);

}  // namespace paceline
