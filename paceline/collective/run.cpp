#include "paceline/collective/run.hpp"

#include <algorithm>
#include <cstring>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

// The low bits of a message's tag: which part of the operation it belongs to.
constexpr int kPartBits = 24;
enum Part : std::uint64_t { first_route = 0, fallback_route = 1, meetings = 2 };
std::uint64_t part(Part kind, std::uint64_t number) { return number << 2 | kind; }

}  // namespace

Tag Run::tag(std::uint64_t part_of) const {
  return {group_->context(), request_.descriptor.sequence << kPartBits | part_of};
}

void Run::begin(Endpoint& endpoint, const Group& group, Request&& request) {
  endpoint_ = &endpoint;
  group_ = &group;
  self_ = group.index_of(endpoint.rank());
  request_ = std::move(request);
  fingerprint_ = request_.descriptor.fingerprint();
  fell_back_ = false;
  done_ = false;
  meeting_.under_way = false;
  meeting_.number = 0;
  take_route(std::move(request_.route));
}

void Run::take_route(Route&& route) {
  route_ = std::move(route);
  first_segment_ = next_segment_ = 0;
  const std::size_t stride = static_cast<std::size_t>(route_.schedule->scratch_copies) * route_.layout.scratch_stride();
  if (stride > 0) {
    constexpr std::size_t kLine = 64;
    const std::size_t bytes = std::min(kLanes, route_.layout.segments()) * stride + kLine;
    if (scratch_memory_.size() < bytes) scratch_memory_.resize(bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_memory_.data());
    std::byte* base = scratch_memory_.data() + (kLine - address % kLine) % kLine;
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes_[lane].scratch = base + lane * stride;
  }
  open_lanes();
}

void Run::open_lanes() {
  while (next_segment_ - first_segment_ < kLanes && next_segment_ < route_.layout.segments()) {
    Lane& lane = lane_of(next_segment_);
    lane.segment = next_segment_++;
    lane.next = lane.open = 0;
    lane.held_by.reset();
    lane.pending.clear();
    lane.pending.resize(route_.schedule->steps.size());
  }
}

bool Run::advance() {
  bool any = false;
  for (std::size_t segment = first_segment_; segment < next_segment_; ++segment) {
    const Schedule* before = route_.schedule;
    any |= advance_lane(lane_of(segment));
    if (route_.schedule != before) return true;  // fell back: all lanes have begun anew
  }
  while (first_segment_ < next_segment_ && lane_done(lane_of(first_segment_))) {
    ++first_segment_;
    open_lanes();
    any = true;
  }
  done_ = first_segment_ == next_segment_;
  return any;
}

bool Run::lane_done(const Lane& lane) const {
  const std::size_t steps = route_.schedule->steps.size();
  return lane.next == steps && lane.open == steps;
}

bool Run::advance_lane(Lane& lane) {
  bool any = close_steps(lane);
  while (lane.next < route_.schedule->steps.size() && may_issue(lane)) {
    const Schedule* before = route_.schedule;
    if (!issue(lane, before->steps[lane.next])) return any;
    if (route_.schedule != before) return true;  // the lane is gone with the route
    ++lane.next;
    any = true;
    close_steps(lane);
  }
  return any;
}

// Moves past complete steps, and checks those that ended.
bool Run::close_steps(Lane& lane) {
  const std::size_t before = lane.open;
  for (std::size_t i = lane.open; i < lane.next; ++i) {
    Pending& pending = lane.pending[i];
    if (!pending.done()) continue;
    if (pending.error() != nullptr) throw Error(*pending.error());
    if (i == lane.open) ++lane.open;
  }
  return lane.open != before;
}

bool Run::may_issue(const Lane& lane) const {
  if (lane.held_by && !lane.pending[*lane.held_by].done()) return false;
  const auto& waits = route_.schedule->waits[lane.next];
  return std::all_of(waits.begin(), waits.end(),
                     [&](int step) { return lane.pending[static_cast<std::size_t>(step)].done(); });
}

// A receive into scratch whose next step adds that scratch to a block which nobody reads any more (a small message has
// left when its send returns) can as well combine straight into the block.
bool Run::can_fuse(const Lane& lane) const {
  const Schedule& schedule = *route_.schedule;
  const Step& step = schedule.steps[lane.next];
  if (step.action != Action::receive || step.what.buffer != Buffer::scratch || lane.next + 1 == schedule.steps.size())
    return false;
  const Step& next = schedule.steps[lane.next + 1];
  if (next.action != Action::add || !next.with.overlaps(step.what)) return false;
  const auto& waits = schedule.waits[lane.next + 1];
  return std::all_of(waits.begin(), waits.end(), [&](int earlier) {
    return static_cast<std::size_t>(earlier) == lane.next || lane.pending[static_cast<std::size_t>(earlier)].done();
  });
}

// False if the step cannot be issued yet.
bool Run::issue(Lane& lane, const Step& step) {
  if (step.action == Action::meet) return meet();
  if (!step.communicates()) {
    run_local(lane, step);
    return true;
  }
  const std::span<std::byte> bytes = memory(lane, step.what);
  // Blocks of their own sizes: a pair that is through with its block sends nothing more, whatever others still do.
  if (lane.segment > 0 && bytes.empty()) return true;
  const Rank peer = group_->at(step.peer);
  const Tag message = tag(part(fell_back_ ? fallback_route : first_route, lane.segment));
  // The first message of a block vouches for the whole of it: a pair that disagrees could otherwise part in between.
  const std::uint64_t fingerprint =
      lane.segment == 0 ? fingerprint_ ^ route_.layout.whole_block(step.what) : fingerprint_;
  Pending& pending = lane.pending[lane.next];
  if (step.action == Action::send) {
    pending = endpoint_->send(peer, message, bytes, fingerprint);
  } else {
    const bool fused = can_fuse(lane);
    const Step& last = fused ? route_.schedule->steps[lane.next + 1] : step;
    const Operands operands = last.peer_first ? Operands::piece_first : Operands::into_first;
    const bool combines = fused || step.action == Action::reduce;
    const Combine combine =
        combines ? combine_kernel(request_.descriptor.reduce, request_.descriptor.dtype, operands) : nullptr;
    const Endpoint::ReceiveOptions how{.combine = combine, .fingerprint = fingerprint, .exact = true};
    pending = endpoint_->receive(peer, message, memory(lane, last.what), how);
    if (fused) lane.held_by = lane.next++;
  }
  return true;
}

// ---- meetings

void Run::begin_meeting() {
  const int n = group_->size();
  const std::size_t count = static_cast<std::size_t>(n);
  const Tag message = tag(part(meetings, static_cast<std::uint64_t>(meeting_.number)));
  meeting_.under_way = true;
  locations_.resize(count);
  // No bytes lie anywhere: nobody will look for them.
  const auto here = request_.output_bytes == 0
                        ? Endpoint::Location{.region = 1}
                        : endpoint_->locate(request_.output, request_.output_bytes).value_or(Endpoint::Location{});
  locations_[static_cast<std::size_t>(self_)] = here;
  const auto own = std::as_bytes(std::span(&locations_[static_cast<std::size_t>(self_)], 1));
  for (int hop = 1; hop < n; ++hop) {
    const int to = (self_ + hop) % n;
    meeting_.pending.push_back(endpoint_->send(group_->at(to), message, own, fingerprint_));
  }
  for (int hop = 1; hop < n; ++hop) {
    const int from = (self_ + hop) % n;
    const auto theirs = std::as_writable_bytes(std::span(&locations_[static_cast<std::size_t>(from)], 1));
    meeting_.pending.push_back(endpoint_->receive(group_->at(from), message, theirs,
                                                  {.combine = nullptr, .fingerprint = fingerprint_, .exact = true}));
  }
}

// True when all have met and the schedule goes on, maybe on the fallback route.
bool Run::meet() {
  if (!meeting_.under_way) begin_meeting();
  for (const Pending& pending : meeting_.pending) {
    if (!pending.done()) return false;
    if (pending.error() != nullptr) throw Error(*pending.error());
  }
  meeting_.pending.clear();
  meeting_.under_way = false;
  const auto unmapped = std::find_if(locations_.begin(), locations_.end(), [](const auto& l) { return l.region == 0; });
  if (meeting_.number++ == 0 && unmapped != locations_.end()) {
    if (request_.fallback.schedule == nullptr) {
      const Rank rank = group_->at(static_cast<int>(unmapped - locations_.begin()));
      throw Error(Code::invalid, rank, "memory that peers cannot map");  // the Communicator makes the sentence
    }
    fell_back_ = true;
    take_route(std::move(request_.fallback));
  }
  return true;
}

// ---- local work

std::span<std::byte> Run::memory(const Lane& lane, const Blocks& blocks) const {
  const Extent extent = route_.layout.find(blocks, lane.segment);
  std::byte* base = blocks.buffer == Buffer::input    ? request_.input
                    : blocks.buffer == Buffer::output ? request_.output
                                                      : lane.scratch;
  return {base + extent.offset, extent.bytes};
}

void Run::run_local(Lane& lane, const Step& step) {
  const OpDescriptor& d = request_.descriptor;
  const auto what = memory(lane, step.what);
  switch (step.action) {
    case Action::move: {
      const auto from = memory(lane, step.with);
      if (what.data() != from.data() && !what.empty()) std::memmove(what.data(), from.data(), what.size());
      return;
    }
    case Action::add: {
      const auto with = memory(lane, step.with);
      const std::byte* const sources[] = {step.peer_first ? with.data() : what.data(),
                                          step.peer_first ? what.data() : with.data()};
      std::byte* const targets[] = {what.data()};
      return fold({.op = d.reduce, .dtype = d.dtype, .sources = sources, .targets = targets, .bytes = what.size()});
    }
    case Action::finish:
      if (divisor() > 1) divide(d.dtype, what.data(), what.size(), divisor());
      return;
    case Action::fold: return run_fold(lane, step);
    case Action::direct: return run_direct(step);
    case Action::pull: return run_pull(step);
    default: CHECK(false, "this step is not local");
  }
}

int Run::divisor() const { return request_.descriptor.reduce == ReduceOp::average ? group_->size() : 1; }

void Run::run_fold(Lane& lane, const Step& step) {
  sources_.clear();
  for (int rank = 0; rank < group_->size(); ++rank) {
    const Blocks copy{Buffer::scratch, rank * route_.schedule->blocks + step.what.first, step.what.count};
    sources_.push_back(memory(lane, rank == self_ ? step.with : copy).data());
  }
  const auto what = memory(lane, step.what);
  std::byte* const targets[] = {what.data()};
  const OpDescriptor& d = request_.descriptor;
  fold({.op = d.reduce,
        .dtype = d.dtype,
        .sources = sources_,
        .targets = targets,
        .bytes = what.size(),
        .divide_by = divisor()});
}

std::byte* Run::mapped(int peer, const Extent& extent) {
  if (peer == self_) return request_.output + extent.offset;
  const Endpoint::Location& location = locations_[static_cast<std::size_t>(peer)];
  const auto region = endpoint_->map(group_->at(peer), location.region);
  const bool inside =
      region && location.offset <= region->size() && extent.offset + extent.bytes <= region->size() - location.offset;
  if (!inside) {
    throw Error(Code::peer_lost, group_->at(peer),
                endpoint_->describe(group_->at(peer)) + " has released the memory it lent");
  }
  return region->data() + location.offset + extent.offset;
}

void Run::run_direct(const Step& step) {
  const Extent extent = route_.layout.find(step.what, 0);
  if (extent.bytes == 0) return;
  sources_.clear();
  targets_.clear();
  for (int rank = 0; rank < group_->size(); ++rank) {
    std::byte* at = mapped(rank, extent);
    sources_.push_back(at);
    targets_.push_back(at);
  }
  const OpDescriptor& d = request_.descriptor;
  fold({.op = d.reduce,
        .dtype = d.dtype,
        .sources = sources_,
        .targets = targets_,
        .bytes = extent.bytes,
        .divide_by = divisor()});
  endpoint_->count_direct(2 * extent.bytes * static_cast<std::size_t>(group_->size() - 1));
}

void Run::run_pull(const Step& step) {
  const Extent to = route_.layout.find(step.what, 0);
  const Extent from = route_.layout.find(step.with, 0);
  if (to.bytes == 0) return;
  std::memcpy(request_.output + to.offset, mapped(step.peer, from), to.bytes);
  endpoint_->count_direct(to.bytes);
}

const Error* Run::own_failure() const {
  const auto own = [](const Pending& pending) {
    return pending.error() != nullptr && pending.error()->code() != Code::cancelled;
  };
  const auto find = [&](const std::vector<Pending>& all) {
    const auto found = std::find_if(all.begin(), all.end(), own);
    return found == all.end() ? nullptr : found->error();
  };
  for (const Lane& lane : lanes_) {
    if (const Error* error = find(lane.pending)) return error;
  }
  return find(meeting_.pending);
}

void Run::abandon() {
  for (Lane& lane : lanes_) lane.pending.clear();
  meeting_ = {};
  first_segment_ = next_segment_ = 0;
  done_ = true;
}

}  // namespace paceline
