// Run: the one executor. Carries out one collective operation by its schedule, segment by segment with a few segments
// in flight, and never blocks: `advance` does what can be done now. Owned by the Communicator that started it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/collective/descriptor.hpp"
#include "paceline/collective/layout.hpp"
#include "paceline/collective/schedule.hpp"
#include "paceline/core/group.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

// A schedule with the layout of the buffers that it works on.
struct Route {
  const Schedule* schedule = nullptr;
  Layout layout;
};

struct Request {
  OpDescriptor descriptor;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t output_bytes = 0;  // what peers may map of the output
  Route route;
  // Taken instead of `route` when route needs mapped memory and some rank's buffer is not in an arena.
  Route fallback;
  Algorithm fallback_algorithm = Algorithm::automatic;
  TimePoint deadline = kNever;
};

class Run {
 public:
  // Takes up a new operation; buffers of earlier ones are reused.
  void begin(Endpoint& endpoint, const Group& group, Request&& request);
  // Does whatever can be done now; true if anything was. Throws the Error of a message that failed.
  bool advance();
  bool done() const { return done_; }
  // Of the messages that have failed, one that failed here, and not because the peer gave it up; nullptr if there is
  // none.
  const Error* own_failure() const;
  // Gives up: nothing touches the buffers any more.
  void abandon();

  const Request& request() const { return request_; }
  std::uint64_t fingerprint() const { return fingerprint_; }
  // The one that was taken in the end.
  Algorithm algorithm() const { return fell_back_ ? request_.fallback_algorithm : request_.descriptor.algorithm; }

 private:
  // Segments in flight: enough that one can be sent while another is being reduced and a third waits for its turn.
  static constexpr std::size_t kLanes = 3;

  // One segment's way through the schedule. Segment s runs in lane s % kLanes.
  struct Lane {
    std::size_t segment = 0;
    std::size_t next = 0;                // step to issue
    std::size_t open = 0;                // first step that may not be complete
    std::vector<Pending> pending;        // by step
    std::optional<std::size_t> held_by;  // a fused step, which must be complete before anything else is issued
    std::byte* scratch = nullptr;
  };
  // A meeting under way: one message to and one from every other rank.
  struct Meeting {
    bool under_way = false;
    int number = 0;
    std::vector<Pending> pending;
  };

  void take_route(Route&& route);
  void open_lanes();
  Lane& lane_of(std::size_t segment) { return lanes_[segment % kLanes]; }
  bool advance_lane(Lane& lane);
  bool may_issue(const Lane& lane) const;
  bool issue(Lane& lane, const Step& step);
  bool can_fuse(const Lane& lane) const;
  bool close_steps(Lane& lane);
  bool lane_done(const Lane& lane) const;
  bool meet();
  void begin_meeting();

  void run_local(Lane& lane, const Step& step);
  void run_fold(Lane& lane, const Step& step);
  void run_direct(const Step& step);
  void run_pull(const Step& step);
  int divisor() const;

  std::span<std::byte> memory(const Lane& lane, const Blocks& blocks) const;
  std::byte* mapped(int peer, const Extent& extent);
  Tag tag(std::uint64_t part) const;

  Endpoint* endpoint_ = nullptr;
  const Group* group_ = nullptr;
  int self_ = 0;
  Request request_;
  Route route_;
  std::uint64_t fingerprint_ = 0;
  bool fell_back_ = false;
  bool done_ = false;
  std::size_t first_segment_ = 0;  // in flight: [first_segment_, next_segment_)
  std::size_t next_segment_ = 0;
  std::array<Lane, kLanes> lanes_;
  Meeting meeting_;
  std::vector<Endpoint::Location> locations_;  // of every rank's output, known after the first meeting
  std::vector<std::byte> scratch_memory_;
  std::vector<const std::byte*> sources_;  // of the fold at hand; kept, so that it costs no allocation
  std::vector<std::byte*> targets_;
};

}  // namespace paceline
