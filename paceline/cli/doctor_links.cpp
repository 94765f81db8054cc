#include "paceline/cli/doctor_links.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>

#include "paceline/cli/measure.hpp"

namespace paceline {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kContext = 0x646f63746f72ULL;  // no group's
constexpr Tag kPing{kContext, 1}, kPong{kContext, 2}, kChunk{kContext, 3}, kAck{kContext, 4};

constexpr Duration kLatencySpan = milliseconds(10);
constexpr Duration kStreamSpan = milliseconds(40);
constexpr Duration kLongestStream = milliseconds(120);
constexpr std::size_t kLeastStream = 1 << 20;  // so much should get through, if there is time for it
constexpr std::size_t kLeastTrips = 4;
constexpr std::size_t kMostTrips = 2000;

// A stream keeps a few chunks under way, each of which is acknowledged: what a slow link still has to carry when time
// is up is never more than those. Chunks grow and shrink until one takes about a millisecond.
constexpr std::size_t kUnderWay = 8;
constexpr std::size_t kSmallChunk = 16 << 10;
constexpr std::size_t kLargeChunk = 1 << 20;
constexpr Duration kQuick = std::chrono::microseconds(500);
constexpr Duration kSlow = milliseconds(4);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
T take(Endpoint& endpoint, Rank from, Tag tag) {
  T value{};
  endpoint.receive(from, tag, std::as_writable_bytes(std::span(&value, 1))).wait();
  return value;
}

std::int64_t wall_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The first trips warm caches and connections.
void lead_ping(Endpoint& endpoint, Rank peer, LinkTiming& timing) {
  const Clock& clock = endpoint.clock();
  const TimePoint deadline = clock.after(kLatencySpan);
  std::vector<double> trips;
  while (trips.size() < kLeastTrips || (clock.now() < deadline && trips.size() < kMostTrips)) {
    const std::int64_t more = 1;
    const std::int64_t wall = wall_ns();
    const TimePoint start = clock.now();
    endpoint.send(peer, kPing, bytes_of(more)).wait();
    const auto theirs = take<std::int64_t>(endpoint, peer, kPong);
    const double trip = seconds(clock.now() - start);
    if (trips.empty() || trip < 2 * timing.clock_error) {
      timing.clock_ahead = static_cast<double>(theirs - wall) * 1e-9 - trip / 2;
      timing.clock_error = trip / 2;
    }
    trips.push_back(trip);
  }
  endpoint.send(peer, kPing, bytes_of(std::int64_t{0})).wait();
  trips.erase(trips.begin(), trips.begin() + kLeastTrips / 2);
  timing.latency_us = median(trips) / 2 * 1e6;
}

void answer_ping(Endpoint& endpoint, Rank peer) {
  while (take<std::int64_t>(endpoint, peer, kPing) != 0) {
    const std::int64_t now = wall_ns();
    endpoint.send(peer, kPong, bytes_of(now)).wait();
  }
}

class Stream {
 public:
  Stream(Endpoint& endpoint, Rank peer) : endpoint_(endpoint), peer_(peer), memory_(kLargeChunk) {}

  double run() {
    const Clock& clock = endpoint_.clock();
    const TimePoint start = last_ = clock.now();
    const TimePoint deadline = start + kStreamSpan;
    const TimePoint last_call = start + kLongestStream;
    for (TimePoint now = start; now < deadline || (arrived_ < kLeastStream && now < last_call); now = clock.now()) {
      while (under_way_.size() < kUnderWay) send(chunk_);
      await_one();
    }
    while (!under_way_.empty()) await_one();
    endpoint_.send(peer_, kChunk, {}).wait();
    return steady_rate(start, arrivals_);
  }

 private:
  struct Chunk {
    std::size_t bytes;
    Pending sent;
  };

  void send(std::size_t bytes) {
    under_way_.push_back({bytes, endpoint_.send(peer_, kChunk, std::span(memory_).first(bytes))});
  }

  void await_one() {
    take<std::int64_t>(endpoint_, peer_, kAck);
    Chunk& chunk = under_way_.front();
    chunk.sent.wait();
    arrived_ += chunk.bytes;
    under_way_.pop_front();
    const TimePoint now = endpoint_.clock().now();
    arrivals_.push_back({now, arrived_});
    adapt(now - last_);
    last_ = now;
  }

  // Grows after as many quick ones as can be under way, which have seen more than a bucket that happened to be full.
  void adapt(Duration gap) {
    quick_ = gap < kQuick ? quick_ + 1 : 0;
    if (quick_ > kUnderWay) {
      quick_ = 0;
      chunk_ = std::min(2 * chunk_, kLargeChunk);
    }
    if (gap > kSlow) chunk_ = std::max(chunk_ / 2, kSmallChunk);
  }

  Endpoint& endpoint_;
  const Rank peer_;
  std::vector<std::byte> memory_;
  std::size_t chunk_ = kSmallChunk;
  std::size_t quick_ = 0;  // acknowledgements in a row
  std::size_t arrived_ = 0;
  std::deque<Chunk> under_way_;
  std::vector<LinkArrival> arrivals_;
  TimePoint last_;
};

// Receives are posted ahead, so that no chunk waits for one. An empty chunk is the end.
void drink(Endpoint& endpoint, Rank peer) {
  std::array<std::vector<std::byte>, kUnderWay> memory;
  std::deque<Pending> posted;
  const auto post = [&](std::size_t at) { posted.push_back(endpoint.receive(peer, kChunk, std::span(memory[at]))); };
  for (std::size_t at = 0; at < kUnderWay; ++at) {
    memory[at].resize(kLargeChunk);
    post(at);
  }
  for (std::size_t at = 0;; at = (at + 1) % kUnderWay) {
    posted.front().wait();
    if (posted.front().bytes() == 0) return;
    posted.pop_front();
    post(at);
    endpoint.send(peer, kAck, bytes_of(std::int64_t{1})).wait();
  }
}

}  // namespace

double steady_rate(TimePoint start, const std::vector<LinkArrival>& arrivals) {
  if (arrivals.empty()) return 0;
  const LinkArrival& last = arrivals.back();
  const Duration beginning = (last.when - start) * 2 / 5;
  const std::size_t filling = last.bytes < kLeastStream ? 0 : kLeastStream / 2;
  LinkArrival first{start, 0};
  for (const LinkArrival& arrival : arrivals) {
    if (arrival.when - start >= beginning && arrival.bytes >= filling && &arrival != &last) {
      first = arrival;
      break;
    }
  }
  const double span = seconds(last.when - first.when);
  return span > 0 ? static_cast<double>(last.bytes - first.bytes) / span / 1e9 : 0;
}

LinkTiming measure_link(Endpoint& endpoint, Rank peer, bool leads) {
  LinkTiming timing;
  if (leads) {
    lead_ping(endpoint, peer, timing);
    timing.there = Stream(endpoint, peer).run();
    drink(endpoint, peer);
    timing.back = take<double>(endpoint, peer, kPong);
  } else {
    answer_ping(endpoint, peer);
    drink(endpoint, peer);
    const double rate = Stream(endpoint, peer).run();
    endpoint.send(peer, kPong, bytes_of(rate)).wait();
  }
  return timing;
}

}  // namespace paceline
