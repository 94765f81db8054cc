#include "paceline/fabric/hosts/shaped_wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

// What may wait for the link before put refuses: about as much as the kernel lets a connection queue.
constexpr std::size_t kBacklogBytes = 1 << 20;

using Stamp = std::int64_t;  // goes before the payload

std::int64_t count(TimePoint time) { return time.time_since_epoch().count(); }
TimePoint point(std::int64_t count) { return TimePoint(Duration(count)); }

// Takes the line from `ready` on, or as soon as it is free, for `span`. When it has carried that.
TimePoint occupy(std::atomic<std::int64_t>& free_at, TimePoint ready, Duration span) {
  std::int64_t before = free_at.load(std::memory_order_relaxed);
  std::int64_t after = 0;
  do {
    after = std::max(before, count(ready)) + span.count();
  } while (!free_at.compare_exchange_weak(before, after, std::memory_order_relaxed));
  return point(after);
}

class ShapedWire final : public Wire, private WireSink {
 public:
  ShapedWire(std::unique_ptr<Wire> inner, int ranks, ShapedWireOptions options)
      : inner_(std::move(inner)), options_(std::move(options)), links_(static_cast<std::size_t>(ranks)) {}

  std::string address() const override { return inner_->address(); }
  void connect(const ConnectOptions& /*options*/) override { CHECK(false, "the inner wire is connected already"); }

  bool put(Rank to, const FrameHeader& header, const std::byte* payload) override {
    const TimePoint now = options_.clock->now();
    if (room_at() > now) {
      refused_ = true;
      return false;
    }
    const Duration span = time_for(header.bytes);
    const Stamp left = count(occupy(options_.line->out_free_at, now, span));
    parcel_.resize(sizeof left + header.bytes);
    std::memcpy(parcel_.data(), &left, sizeof left);
    if (header.bytes > 0) std::memcpy(parcel_.data() + sizeof left, payload, header.bytes);
    FrameHeader stamped = header;
    stamped.bytes += static_cast<std::uint32_t>(sizeof left);
    if (inner_->put(to, stamped, parcel_.data())) return true;
    options_.line->out_free_at.fetch_sub(span.count(), std::memory_order_relaxed);
    return false;
  }

  bool progress(WireSink& sink) override {
    sink_ = &sink;
    bool any = inner_->progress(*this);
    const TimePoint now = options_.clock->now();
    while (release(now)) any = true;
    if (refused_ && room_at() <= now) {
      refused_ = false;
      any = true;
    }
    sink_ = nullptr;
    return any;
  }

  bool arm() override { return inner_->arm() && due() > options_.clock->now(); }
  TimePoint due() const override {
    TimePoint next = refused_ ? room_at() : kNever;
    for (const auto& link : links_) {
      if (!link.empty()) next = std::min(next, link.front().due);
    }
    return std::min(next, inner_->due());
  }
  int descriptor() const override { return inner_->descriptor(); }
  bool flushed() const override { return inner_->flushed(); }
  std::size_t max_payload() const override { return inner_->max_payload() - sizeof(Stamp); }
  std::string describe() const override {
    return fmt::format("{}, shaped to {}", inner_->describe(), options_.shape.text);
  }
  std::uint64_t strangers() const override { return inner_->strangers() + unstamped_; }

 private:
  struct Held {
    TimePoint due;          // when it reaches the link of this host; then, when that link has carried it
    bool arriving = false;  // the latter
    FrameHeader header;
    std::vector<std::byte> payload;
  };

  Duration time_for(std::size_t payload) const { return options_.shape.time_for(payload + sizeof(FrameHeader)); }
  TimePoint room_at() const {
    return point(options_.line->out_free_at.load(std::memory_order_relaxed)) - options_.shape.time_for(kBacklogBytes);
  }

  void on_wire_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) override {
    Stamp left = 0;
    if (payload.size() < sizeof left) {
      ++unstamped_;
      return;
    }
    std::memcpy(&left, payload.data(), sizeof left);
    const auto rest = payload.subspan(sizeof left);
    Held held{.due = point(left) - options_.clock_offset_of(from) + options_.shape.latency,
              .header = header,
              .payload = {rest.begin(), rest.end()}};
    held.header.bytes = static_cast<std::uint32_t>(rest.size());
    links_[static_cast<std::size_t>(from)].push_back(std::move(held));
  }

  void on_wire_failure(Rank peer) override { sink_->on_wire_failure(peer); }

  // The frame that comes next: lets it onto the link of this host, or hands it over if that has carried it. False when
  // nothing is due.
  bool release(TimePoint now) {
    const auto earlier = [](const auto& a, const auto& b) {
      return !a.empty() && (b.empty() || a.front().due < b.front().due);
    };
    const auto link = std::min_element(links_.begin(), links_.end(), earlier);
    if (link == links_.end() || link->empty() || link->front().due > now) return false;
    Held& next = link->front();
    if (!std::exchange(next.arriving, true)) {
      // Its first byte came before its last: if the link was free, it is through now.
      const Duration span = time_for(next.header.bytes);
      next.due = occupy(options_.line->in_free_at, next.due - span, span);
      return true;
    }
    const Held held = std::move(next);
    link->pop_front();
    sink_->on_wire_frame(static_cast<Rank>(link - links_.begin()), held.header, held.payload);
    return true;
  }

  const std::unique_ptr<Wire> inner_;
  const ShapedWireOptions options_;
  std::vector<std::deque<Held>> links_;  // by rank
  std::vector<std::byte> parcel_;        // kept for its memory
  bool refused_ = false;                 // a put found no room
  std::uint64_t unstamped_ = 0;
  WireSink* sink_ = nullptr;  // inside progress
};

}  // namespace

std::unique_ptr<Wire> shape_wire(std::unique_ptr<Wire> inner, int ranks, ShapedWireOptions options) {
  return std::make_unique<ShapedWire>(std::move(inner), ranks, std::move(options));
}

}  // namespace paceline
