// run_sim: the sim back end for code that talks through an Endpoint.
//
//   const SimReport report = run_sim({.ranks = 4, .seed = 7}, [](Endpoint& endpoint) { … });
//   const SimReport report = run_sim({.ranks = 4, .seed = 7}, [](Endpoint& endpoint, SimWorld& world) {
//     world.compute(endpoint.rank(), std::chrono::milliseconds(5));
//   });
//   report.rethrow();
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/sim/sim.hpp"

namespace paceline {

template <class Body>
requires std::invocable<Body&, Endpoint&> || std::invocable<Body&, Endpoint&, SimWorld&>
[[nodiscard]] SimReport run_sim(SimOptions options, Body body) {
  SimWorld world(std::move(options));
  return world.run([&](std::unique_ptr<Transport> transport, Rank) {
    Endpoint endpoint(std::move(transport));
    if constexpr (std::invocable<Body&, Endpoint&>) {
      body(endpoint);
    } else {
      body(endpoint, world);
    }
    endpoint.close();  // here, where a death on the way may throw
  });
}

}  // namespace paceline
