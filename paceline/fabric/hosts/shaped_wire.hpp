// A Wire that behaves like a slower network: frames leave a host and reach a host one after the other, at the rate of
// its link, and take the latency in addition. Needs no privileges, for experiments on one machine.
//
// A frame goes to the real network at once, with the time at which its last byte would have left; the receiver keeps it
// until it would have come. So the imitated network moves on while both sides compute, as a real one does, and nothing
// is imitated but time. The links of a host's ranks are one: Line.
#pragma once

#include <functional>
#include <memory>

#include "paceline/fabric/hosts/link_shape.hpp"
#include "paceline/fabric/hosts/wire.hpp"
#include "paceline/fabric/line.hpp"

namespace paceline {

struct ShapedWireOptions {
  LinkShape shape = {};
  Line* line = nullptr;                                     // outlives the wire
  const Clock* clock = nullptr;                             // so does this
  std::function<Duration(Rank peer)> clock_offset_of = {};  // what the peer's clock shows when ours shows 0
};

// `inner` must be connected already.
std::unique_ptr<Wire> shape_wire(std::unique_ptr<Wire> inner, int ranks, ShapedWireOptions options);

}  // namespace paceline
