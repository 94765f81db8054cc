#include "paceline/fabric/inbox_transport.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/fabric/cores.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kDoorbellKey = ~std::uint64_t{0};
constexpr std::uint64_t kCompanionKey = kDoorbellKey - 1;

// Note [Spinning before sleeping]. Waking a sleeper costs 5 to 100 µs. A rank that spins for less than that falls into
// step with its peer in the worst way: each is asleep whenever the other is done. But where the peer needs the very
// core on which we spin, spinning only delays it. That case gives itself away: a long spin in vain, and then a short
// sleep. It comes about when something else runs on the other cores: a scheduler sees two ranks that sleep by turns
// and lets them share one. The higher rank then steps aside, to a core that no rank is on. Where that does not help, a
// rank spins only briefly for a while, then tries again. Where ranks outnumber cores, spinning is never right.
constexpr Duration kLongSpin = std::chrono::microseconds(200);
constexpr Duration kBriefSpin = std::chrono::microseconds(10);
constexpr Duration kShortSleep = std::chrono::microseconds(300);
constexpr int kTries = 3;
constexpr int kWaitsBetweenTries = 100;

// Note [Looking before sleeping]. A rank that has no others beside it waits for a network. Waking it costs as much as a
// quick network takes for a message, so it first asks the kernel for a while whether something has come. After some
// vain attempts it does without for a while: then the network is slow, or the cores are wanted elsewhere.
constexpr Duration kLook = std::chrono::microseconds(100);

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

InboxTransport::InboxTransport(Rank rank, std::vector<InboxPeer> peers, std::string backend, int cores)
    : own_(peers[static_cast<std::size_t>(rank)].inbox), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.valid()) throw system_error("cannot create an epoll descriptor", errno);
  facts_ = {.rank = rank,
            .size = static_cast<int>(peers.size()),
            .cores = cores,
            .hosts = std::vector<int>(peers.size(), 0),
            .backend = std::move(backend)};
  for (InboxPeer& peer : peers) {
    Link link{.peer = std::move(peer)};
    link.room_to = own_.shape().cells;
    links_.push_back(std::move(link));
  }
  watch(links_[static_cast<std::size_t>(rank)].peer.doorbell, kDoorbellKey);
}

void InboxTransport::watch(int descriptor, std::uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw system_error("cannot watch a descriptor", errno);
  }
}

void InboxTransport::accompany(Companion* companion, std::initializer_list<int> descriptors) {
  companion_ = companion;
  for (const int descriptor : descriptors) watch(descriptor, kCompanionKey);
}

void InboxTransport::unwatch(int descriptor) { epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, descriptor, nullptr); }

bool InboxTransport::has_room(Link& link) {
  if (link.sent < link.room_to) return true;
  const Inbox& inbox = link.peer.inbox;
  link.room_to = inbox.consumed(facts_.rank).load(std::memory_order_seq_cst) + inbox.shape().cells;
  return link.sent < link.room_to;
}

bool InboxTransport::put(Rank to, const FrameHeader& header, const std::byte* payload) {
  Link& link = links_[static_cast<std::size_t>(to)];
  CHECK(header.bytes <= own_.shape().payload, "a frame's payload fits into a cell");
  if (link.presence != Presence::here) return true;
  if (!has_room(link)) {
    link.refused = true;
    return false;
  }
  link.refused = false;
  Cell& cell = link.peer.inbox.cell(facts_.rank, link.sent);
  cell.header = header;
  if (header.bytes > 0) {
    const bool in_header = header.kind == FrameKind::eager && header.bytes <= kInlinePayload;
    std::memcpy(in_header ? reinterpret_cast<std::byte*>(&cell.header.message) : Inbox::payload(cell), payload,
                header.bytes);
  }
  cell.stamp.store(++link.sent, std::memory_order_seq_cst);  // see Note [Waking a sleeper]
  ring_if_asleep(link);
  return true;
}

void InboxTransport::ring_if_asleep(const Link& link) const {
  if (link.peer.inbox.control().asleep.load(std::memory_order_seq_cst) == 0) return;
  eventfd_write(link.peer.doorbell, 1);  // a failure means that the counter is full: the doorbell is ringing already
}

bool InboxTransport::poll(TransportSink& sink) {
  if (std::exchange(armed_, false)) own_.control().asleep.store(0, std::memory_order_relaxed);
  bool any = false;
  for (Rank from = 0; from < facts_.size; ++from) {
    Link& link = links_[static_cast<std::size_t>(from)];
    if (link.presence != Presence::gone) any |= drain(from, link, sink);
    if (link.refused && has_room(link)) {
      link.refused = false;  // said once: whoever wanted to put may have given up meanwhile
      any = true;
    }
  }
  const std::uint64_t alerts = own_.control().alerts.load(std::memory_order_seq_cst);
  if (alerts != alerts_seen_) {
    alerts_seen_ = alerts;
    note_closed_peers();
    sink.on_alert();
    any = true;
  }
  if (leaving_ > 0) any |= report_departures(sink);
  return any;
}

void InboxTransport::note_closed_peers() {
  for (Rank peer = 0; peer < facts_.size; ++peer) {
    const Link& link = links_[static_cast<std::size_t>(peer)];
    if (peer == facts_.rank || link.presence != Presence::here) continue;
    if (link.peer.inbox.control().closed.load(std::memory_order_acquire) != 0) note_departure(peer, Departure::closed);
  }
}

bool InboxTransport::drain(Rank from, Link& link, TransportSink& sink) {
  const std::uint64_t start = link.received;
  // At most one lap at a time, so that one busy peer does not keep the others waiting.
  while (link.received - start < own_.shape().cells) {
    Cell& cell = own_.cell(from, link.received);
    if (cell.stamp.load(std::memory_order_seq_cst) != link.received + 1) break;
    // A copy: the header is checked, and must not change under the checker. The payload is only data.
    const FrameHeader header = cell.header;
    const std::size_t bytes = std::min<std::size_t>(header.bytes, own_.shape().payload);
    const bool in_header = header.kind == FrameKind::eager && bytes <= kInlinePayload;
    const std::byte* payload = in_header ? reinterpret_cast<const std::byte*>(&header.message) : Inbox::payload(cell);
    sink.on_frame(from, header, {payload, bytes});
    ++link.received;
    if (!in_header) own_.consumed(from).store(link.received, std::memory_order_release);
  }
  if (link.received == start) return false;
  own_.consumed(from).store(link.received, std::memory_order_seq_cst);
  ring_if_asleep(link);
  return true;
}

bool InboxTransport::report_departures(TransportSink& sink) {
  bool any = false;
  for (Rank peer = 0; peer < facts_.size; ++peer) {
    Link& link = links_[static_cast<std::size_t>(peer)];
    if (link.presence != Presence::leaving) continue;
    while (drain(peer, link, sink)) {
    }
    link.presence = Presence::gone;
    --leaving_;
    any = true;
    sink.on_departure(peer, link.how);
  }
  return any;
}

void InboxTransport::note_departure(Rank peer, Departure how) {
  Link& link = links_[static_cast<std::size_t>(peer)];
  if (link.presence != Presence::here) return;
  link.presence = Presence::leaving;
  link.how = link.peer.inbox.control().closed.load(std::memory_order_acquire) != 0 ? Departure::closed : how;
  link.refused = false;
  ++leaving_;
}

bool InboxTransport::something_to_do() const {
  if (companion_ != nullptr && companion_->busy()) return true;
  if (leaving_ > 0 || own_.control().alerts.load(std::memory_order_seq_cst) != alerts_seen_) return true;
  for (Rank peer = 0; peer < facts_.size; ++peer) {
    const Link& link = links_[static_cast<std::size_t>(peer)];
    if (link.presence == Presence::gone) continue;
    if (own_.cell(peer, link.received).stamp.load(std::memory_order_seq_cst) == link.received + 1) return true;
    if (!link.refused) continue;
    const std::uint64_t consumed = link.peer.inbox.consumed(facts_.rank).load(std::memory_order_seq_cst);
    if (link.sent < consumed + link.peer.inbox.shape().cells) return true;
  }
  return false;
}

std::optional<TimePoint> InboxTransport::arm() {
  own_.control().asleep.store(1, std::memory_order_seq_cst);  // see Note [Waking a sleeper]
  armed_ = true;
  if (something_to_do() || (companion_ != nullptr && !companion_->may_sleep())) return std::nullopt;
  return kNever;
}

void InboxTransport::wait(TimePoint until) {
  if (something_to_do()) return;
  if (companion_ != nullptr && facts_.size == 1) return wait_for_companion(until);
  const bool crowded = facts_.size > facts_.cores;
  const bool trying = brief_waits_left_ == 0;
  if (!crowded && spin(std::min(until, clock_.now() + (trying ? kLongSpin : kBriefSpin)))) {
    if (trying) vain_spins_ = 0;
    return;
  }
  const TimePoint begin = clock_.now();
  sleep(until);
  // A wait that ended because its caller wanted to wait no longer, such as a mere look, teaches nothing.
  const TimePoint end = clock_.now();
  if (!crowded && end < until) learn_from_sleep(trying, end - begin);
}

// For a rank that has nobody beside it. See Note [Looking before sleeping].
void InboxTransport::wait_for_companion(TimePoint until) {
  if (until <= clock_.now()) {
    sleep(until);  // a mere look
  } else if (brief_waits_left_ > 0) {
    --brief_waits_left_;
    sleep(until);
  } else if (sleep(until, kLook)) {
    vain_spins_ = 0;
  } else if (++vain_spins_ == kTries) {
    vain_spins_ = 0;
    brief_waits_left_ = kWaitsBetweenTries;
  }
}

// See Note [Spinning before sleeping].
void InboxTransport::learn_from_sleep(bool tried, Duration slept) {
  if (!tried) {
    --brief_waits_left_;
  } else if (slept >= kShortSleep) {
    vain_spins_ = 0;  // the peer was busy elsewhere: nothing can be learnt from that
  } else if (shares_core_with_lower_rank()) {
    step_aside();
  } else if (++vain_spins_ == kTries) {
    vain_spins_ = 0;
    brief_waits_left_ = kWaitsBetweenTries;
  }
}

bool InboxTransport::shares_core_with_lower_rank() const {
  const std::uint32_t here = own_.control().core.load(std::memory_order_relaxed);
  for (Rank peer = 0; peer < facts_.rank; ++peer) {
    const Link& link = links_[static_cast<std::size_t>(peer)];
    if (link.presence == Presence::here && link.peer.inbox.control().core.load(std::memory_order_relaxed) == here)
      return true;
  }
  return false;
}

// Moves this thread to a core that no rank slept on last, and lets the scheduler have it back at once.
void InboxTransport::step_aside() const {
  CoreSet taken;
  for (const Link& link : links_) {
    const std::uint32_t core = link.peer.inbox.control().core.load(std::memory_order_relaxed);
    if (core > 0) taken.add(core - 1);
  }
  const CoreSet allowed = available_cores();
  const CoreSet free = allowed.without(taken);
  if (free.count() == 0) return;
  run_on(free);
  run_on(allowed);
}

bool InboxTransport::spin(TimePoint stop) const {
  do {
    for (int look = 0; look < 32; ++look) {
      if (something_to_do()) return true;
      pause_briefly();
    }
  } while (clock_.now() < stop);
  return false;
}

// True if there was something before the thread really slept: at once, or within `look`.
bool InboxTransport::sleep(TimePoint until, Duration look) {
  bool awake = true;
  own_.control().core.store(current_core() + 1, std::memory_order_relaxed);
  own_.control().asleep.store(1, std::memory_order_seq_cst);  // see Note [Waking a sleeper]
  if (!something_to_do() && (companion_ == nullptr || companion_->may_sleep())) {
    epoll_event events[16];
    int ready = look > Duration(0) ? look_at(events, std::min(until, clock_.now() + look)) : 0;
    awake = ready > 0;
    if (ready == 0) {
      const timespec span = until == kNever ? timespec{} : time_left(until, clock_.now());
      ready = epoll_pwait2(epoll_.number(), events, 16, until == kNever ? nullptr : &span, nullptr);
    }
    for (int i = 0; i < ready; ++i) {
      if (events[i].data.u64 == kCompanionKey) continue;  // it is looked after in poll
      if (events[i].data.u64 != kDoorbellKey) {
        on_ready(events[i].data.u64);
        continue;
      }
      eventfd_t ignored;
      eventfd_read(links_[static_cast<std::size_t>(facts_.rank)].peer.doorbell, &ignored);
    }
  }
  own_.control().asleep.store(0, std::memory_order_relaxed);
  return awake;
}

// How many descriptors are ready, looking until then.
int InboxTransport::look_at(std::span<epoll_event> events, TimePoint stop) const {
  int ready = 0;
  do {
    ready = epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0);
  } while (ready <= 0 && clock_.now() < stop);
  return ready;
}

void InboxTransport::publish(std::size_t slot, const BoardRecord& record, Wake wake) {
  own_.publish(slot, record);
  if (wake == Wake::yes) alert_peers();
}

void InboxTransport::alert_peers() const {
  for (Rank peer = 0; peer < facts_.size; ++peer) {
    const Link& link = links_[static_cast<std::size_t>(peer)];
    if (peer == facts_.rank || link.presence != Presence::here) continue;
    link.peer.inbox.control().alerts.fetch_add(1, std::memory_order_seq_cst);
    ring_if_asleep(link);
  }
}

std::optional<BoardRecord> InboxTransport::read_board(Rank peer, std::size_t slot) const {
  return links_[static_cast<std::size_t>(peer)].peer.inbox.read(slot);
}

void InboxTransport::close() {
  own_.control().closed.store(1, std::memory_order_seq_cst);
  alert_peers();
}

}  // namespace paceline
