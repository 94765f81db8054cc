// What a simulated run is made of: its ranks, the links between them, what each call costs, and the faults. Everything
// that looks like chance in a run follows from `seed`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

// What every rank's clock reads at the start of a run. Times in the options below count from here.
inline constexpr TimePoint kSimStart{std::chrono::seconds(1)};

// One direction of a pair. A frame leaves when the frames before it have left, and is under way for `latency` and up to
// `jitter` more. A put is refused while `capacity` frames or bytes were put and not yet taken by the receiver.
struct SimLink {
  Duration latency{1500};
  Duration jitter{500};
  double bytes_per_second = 10e9;
  std::size_t header_bytes = 64;  // on the wire, beside a frame's payload
  std::size_t capacity_frames = 64;
  std::size_t capacity_bytes = 1 << 20;
};

// Virtual time that a rank spends in one call of its Transport or of its Clock.
struct SimCosts {
  Duration put{200};
  Duration poll{50};
  Duration wait{50};
  Duration publish{100};
  Duration read_board{50};
  Duration region{1000};  // allocate, release, map
  Duration clock{5};
};

struct Faults {
  // Delays: a correct program gives the same results with and without them.
  Duration jitter{0};    // added to that of every link
  double loss = 0;       // chance that a transmission is lost and sent again after `retry`, doubled each time
  double duplicate = 0;  // chance that the network carries a frame twice
  Duration retry{20'000};
  std::size_t capacity_frames = 0;  // in place of that of every link, unless 0

  struct Slow {
    Rank rank = 0;
    double factor = 1;        // on the cost of all it does
    double pause_chance = 0;  // of each call
    Duration pause{0};        // at most
  };
  std::vector<Slow> slow{};

  // Failures: survivors must get an Error instead of a result, and must not hang.
  enum class Kill {
    process,  // what the rank has sent still arrives
    host,     // what has not arrived yet is lost
  };
  struct Death {
    Rank rank = 0;
    Duration at = Duration::max();
    std::uint64_t at_call = 0;  // the rank's k-th call of its Transport, counted from 1; 0 is never
    Kill how = Kill::process;
  };
  std::vector<Death> deaths{};
  struct Cut {  // the link between two ranks, in both directions
    Rank a = 0;
    Rank b = 0;
    Duration at{0};
  };
  std::vector<Cut> cuts{};
  struct Partition {  // cuts every link between these ranks and the others
    std::vector<Rank> side{};
    Duration at{0};
  };
  std::vector<Partition> partitions{};

  // A mixture of delays only, and one that in half of all seeds also holds one death, cut or partition.
  static Faults random_delays(std::uint64_t seed, int ranks);
  static Faults random(std::uint64_t seed, int ranks);
  // Whether some rank dies or is cut off if the run lasts long enough.
  bool lethal() const { return !deaths.empty() || !cuts.empty() || !partitions.empty(); }
  std::string describe() const;
};

struct SimOptions {
  int ranks = 1;
  std::uint64_t seed = 1;
  Faults faults{};
  SimLink link{};
  std::function<SimLink(Rank from, Rank to)> link_between{};  // where set, in place of `link`
  // Above 0, each rank has one port to a switch: all frames to others leave through it one after the other at this
  // rate, and all from others come through it so, in the order in which they reach it. See Note [Ports] in network.hpp.
  double port_bytes_per_second = 0;
  SimCosts costs{};
  Duration detection{20'000};  // a death or a cut is noticed after this to twice this
  std::size_t max_payload = 16384;
  std::uint64_t eager_window = kEagerWindow;
  bool shared_memory = true;  // all ranks are on one host and can map each other's regions; else each has its own host
  int cores = 0;              // of a host; 0 is one for each of its ranks
  Duration max_time = std::chrono::hours(1);  // virtual; a longer run is stopped
  std::uint64_t max_calls = 20'000'000;       // of all ranks together; a longer run is stopped
  std::size_t log_events = 2000;              // how many of the last events the report keeps
};

}  // namespace paceline
