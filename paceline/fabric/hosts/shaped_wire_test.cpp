#include "paceline/fabric/hosts/shaped_wire.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>

namespace paceline {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void set(Duration time) { now_ = TimePoint(time); }

 private:
  TimePoint now_{};
};

// A network that takes no time.
struct Ether {
  struct Frame {
    Rank from;
    FrameHeader header;
    std::vector<std::byte> payload;
  };
  std::map<Rank, std::deque<Frame>> to;
};

class EtherWire final : public Wire {
 public:
  EtherWire(Ether& ether, Rank rank) : ether_(ether), rank_(rank) {}
  std::string address() const override { return {}; }
  void connect(const ConnectOptions& /*options*/) override {}
  bool put(Rank to, const FrameHeader& header, const std::byte* payload) override {
    ether_.to[to].push_back({rank_, header, {payload, payload + header.bytes}});
    return true;
  }
  bool progress(WireSink& sink) override {
    auto arrived = std::exchange(ether_.to[rank_], {});
    for (const auto& frame : arrived) sink.on_wire_frame(frame.from, frame.header, frame.payload);
    return !arrived.empty();
  }
  bool arm() override { return ether_.to[rank_].empty(); }
  int descriptor() const override { return -1; }
  bool flushed() const override { return true; }
  std::size_t max_payload() const override { return 1 << 16; }
  std::string describe() const override { return "ether"; }
  std::uint64_t strangers() const override { return 0; }

 private:
  Ether& ether_;
  const Rank rank_;
};

struct Arrivals final : WireSink {
  void on_wire_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) override {
    EXPECT_EQ(header.bytes, payload.size());
    frames.push_back({from, payload.empty() ? std::byte{0} : payload[0]});
  }
  void on_wire_failure(Rank /*peer*/) override {}
  std::vector<std::pair<Rank, std::byte>> frames;
};

class ShapedWireTest : public testing::Test {
 protected:
  // With its frame header a payload of 1000 - 56 bytes takes a millisecond at 1 MB/s.
  static constexpr std::uint32_t kPayload = 1000 - sizeof(FrameHeader);

  Wire& open(Rank rank, Line& line, const char* link, Duration offset = Duration(0)) {
    wires_.push_back(
        shape_wire(std::make_unique<EtherWire>(ether_, rank), 4,
                   {.shape = parse_link(link), .line = &line, .clock = &clock_, .clock_offset_of = [offset](Rank) {
                      return offset;
                    }}));
    return *wires_.back();
  }
  static bool send(Wire& wire, Rank to, int mark = 0) {
    const std::vector<std::byte> payload(kPayload, static_cast<std::byte>(mark));
    return wire.put(to, {.kind = FrameKind::eager, .bytes = kPayload}, payload.data());
  }
  // How many frames are there at each of these times.
  std::vector<std::size_t> arrived(Wire& wire, std::vector<Duration> times) {
    Arrivals arrivals;
    std::vector<std::size_t> counts;
    for (const Duration time : times) {
      clock_.set(time);
      wire.progress(arrivals);
      counts.push_back(arrivals.frames.size());
    }
    return counts;
  }

  ManualClock clock_;
  Ether ether_;
  Line lines_[4] = {};
  std::vector<std::unique_ptr<Wire>> wires_;
};

TEST_F(ShapedWireTest, AFrameTakesItsTimeAtTheRateAndTheLatency) {
  Wire& a = open(0, lines_[0], "1MB/s,5ms");
  Wire& b = open(1, lines_[1], "1MB/s,5ms");
  ASSERT_TRUE(send(a, 1));
  EXPECT_EQ(arrived(b, {milliseconds(1), microseconds(5999), milliseconds(6)}), (std::vector<std::size_t>{0, 0, 1}));
}

TEST_F(ShapedWireTest, FramesFollowEachOtherAtTheRateInTheirOrder) {
  Wire& a = open(0, lines_[0], "1MB/s,5ms");
  Wire& b = open(1, lines_[1], "1MB/s,5ms");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(a, 1, i));
  EXPECT_EQ(arrived(b, {microseconds(6000), microseconds(6999), microseconds(7000), microseconds(8000)}),
            (std::vector<std::size_t>{1, 1, 2, 3}));
}

TEST_F(ShapedWireTest, RanksOfOneHostShareItsLinkOut) {
  Wire& a = open(0, lines_[0], "1MB/s");
  Wire& beside = open(1, lines_[0], "1MB/s");
  Wire& b = open(2, lines_[1], "1MB/s");
  Wire& c = open(3, lines_[2], "1MB/s");
  ASSERT_TRUE(send(a, 2));
  ASSERT_TRUE(send(beside, 3));
  EXPECT_EQ(arrived(b, {microseconds(999), milliseconds(1)}), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(arrived(c, {microseconds(1999), milliseconds(2)}), (std::vector<std::size_t>{0, 1}));
}

TEST_F(ShapedWireTest, FramesOfSeveralHostsShareTheLinkIn) {
  Wire& a = open(0, lines_[0], "1MB/s,1ms");
  Wire& b = open(1, lines_[1], "1MB/s,1ms");
  Wire& c = open(2, lines_[2], "1MB/s,1ms");
  ASSERT_TRUE(send(a, 2));
  ASSERT_TRUE(send(b, 2));
  EXPECT_EQ(arrived(c, {microseconds(1999), milliseconds(2), microseconds(2999), milliseconds(3)}),
            (std::vector<std::size_t>{0, 1, 1, 2}));
}

TEST_F(ShapedWireTest, TheNetworkMovesOnWhileTheReceiverComputes) {
  Wire& a = open(0, lines_[0], "1MB/s,5ms");
  Wire& b = open(1, lines_[1], "1MB/s,5ms");
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(send(a, 1, i));
  EXPECT_EQ(arrived(b, {milliseconds(105)}), (std::vector<std::size_t>{100}));
}

TEST_F(ShapedWireTest, RefusesWhenTooMuchWaitsAndSaysWhenThereIsRoom) {
  Wire& a = open(0, lines_[0], "1MB/s");
  Arrivals none;
  int put = 0;
  while (send(a, 1) && put < 10'000) ++put;
  EXPECT_GE(put, 1000);
  ASSERT_LT(put, 10'000);
  const TimePoint room = a.due();
  EXPECT_GT(room, clock_.now());
  EXPECT_LE(room, clock_.now() + milliseconds(2));
  EXPECT_FALSE(a.progress(none));
  clock_.set(room.time_since_epoch());
  EXPECT_FALSE(a.arm());
  EXPECT_TRUE(a.progress(none));
  EXPECT_TRUE(send(a, 1));
}

TEST_F(ShapedWireTest, TimesOfAnotherMachineAreTranslated) {
  Wire& a = open(0, lines_[0], "5ms");
  Wire& b = open(1, lines_[1], "5ms", milliseconds(100));  // the sender's clock is ahead by that
  clock_.set(milliseconds(100));
  ASSERT_TRUE(send(a, 1));
  EXPECT_EQ(arrived(b, {milliseconds(4), milliseconds(5)}), (std::vector<std::size_t>{0, 1}));
}

TEST_F(ShapedWireTest, SleepsUntilTheNextFrameIsDue) {
  Wire& a = open(0, lines_[0], "5ms");
  Wire& b = open(1, lines_[1], "5ms");
  EXPECT_EQ(b.due(), kNever);
  ASSERT_TRUE(send(a, 1));
  EXPECT_FALSE(b.arm());
  EXPECT_EQ(arrived(b, {milliseconds(1)}), (std::vector<std::size_t>{0}));
  EXPECT_EQ(b.due(), TimePoint(milliseconds(5)));
  EXPECT_TRUE(b.arm());
}

}  // namespace
}  // namespace paceline
