#include "paceline/server/serve.hpp"

#include "paceline/server/serve_loop.hpp"
#include "paceline/server/shard.hpp"

namespace paceline {

void serve(Endpoint& endpoint, const ServeOptions& options) {
  const auto rank_of = [&](int worker) { return options.workers[static_cast<std::size_t>(worker)]; };
  ServerShard shard({.place = {.index = options.index,
                               .servers = options.servers,
                               .workers = static_cast<int>(options.workers.size()),
                               .leaves = options.leaves},
                     .policy = options.policy,
                     .reaches_servers = options.server_ranks.size() == static_cast<std::size_t>(options.servers)},
                    [&](int worker, std::uint64_t region) { return endpoint.map(rank_of(worker), region); });
  ServeLoop<ServerShard>(endpoint, options.workers, shard, options.server_ranks).run();
}

}  // namespace paceline
