// What only a job on several hosts has: tokens on the wire, strangers at the doors, leave and loss.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "paceline/fabric/address.hpp"
#include "paceline/fabric/ucx/run_hosts.hpp"
#include "paceline/fabric/ucx/ucx_wire.hpp"

namespace paceline {
namespace {

using std::chrono::milliseconds;

constexpr Tag kTag{77, 1};

struct Frames final : WireSink {
  void on_wire_frame(Rank from, const FrameHeader& header, std::span<const std::byte> payload) override {
    EXPECT_EQ(payload.size(), header.bytes);
    senders.push_back(from);
  }
  void on_wire_failure(Rank /*peer*/) override { ++failures; }
  std::vector<Rank> senders;
  int failures = 0;
};

Token token_of(char letter) {
  Token token;
  token.fill(static_cast<std::byte>(letter));
  return token;
}

template <class Condition>
void progress_until(Wire& a, Frames& at_a, Wire& b, Frames& at_b, Condition reached) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!reached() && std::chrono::steady_clock::now() < deadline) {
    a.progress(at_a);
    b.progress(at_b);
  }
  EXPECT_TRUE(reached());
}

TEST(UcxWire, DropsAndCountsWhatDoesNotCarryTheToken) {
  const auto a = ucx::open_wire({.devices = "lo"}), b = ucx::open_wire({.devices = "lo"});
  a->connect({.rank = 0, .token = token_of('x'), .addresses = {"", b->address()}});
  b->connect({.rank = 1, .token = token_of('y'), .addresses = {a->address(), ""}});
  Frames at_a, at_b;
  const std::byte payload[8] = {};
  const FrameHeader header{.kind = FrameKind::eager, .bytes = 8, .total = 8};
  ASSERT_TRUE(a->put(1, header, payload));
  ASSERT_TRUE(b->put(0, header, payload));
  progress_until(*a, at_a, *b, at_b, [&] { return a->strangers() == 1 && b->strangers() == 1; });
  EXPECT_TRUE(at_a.senders.empty() && at_b.senders.empty());
}

TEST(UcxWire, RefusesAFrameWhenTooManyWaitAndSaysWhenThereIsRoom) {
  const auto a = ucx::open_wire({.devices = "lo"}), b = ucx::open_wire({.devices = "lo"});
  a->connect({.rank = 0, .token = token_of('x'), .addresses = {"", b->address()}});
  b->connect({.rank = 1, .token = token_of('x'), .addresses = {a->address(), ""}});
  Frames at_a, at_b;
  const std::vector<std::byte> payload(a->max_payload());
  const FrameHeader header{.kind = FrameKind::eager, .bytes = static_cast<std::uint32_t>(payload.size())};
  std::size_t put = 0;
  while (a->put(1, header, payload.data()) && put < 100'000) ++put;
  ASSERT_LT(put, 100'000u);
  EXPECT_FALSE(a->flushed());
  progress_until(*a, at_a, *b, at_b, [&] { return at_b.senders.size() == put; });
  EXPECT_TRUE(a->flushed());
  EXPECT_TRUE(a->put(1, header, payload.data()));
}

// Ports of this network namespace at which something listens.
std::set<int> listening_ports() {
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::set<int> ports;
  while (std::getline(table, line)) {
    unsigned port = 0, state = 0;
    if (std::sscanf(line.c_str(), " %*d: %*x:%x %*x:%*x %x", &port, &state) == 2 && state == 0x0a)
      ports.insert(static_cast<int>(port));
  }
  return ports;
}

// Ports below those that the kernel gives to whoever asks for any.
TEST(UcxWire, ListensInsideTheRangeOfPorts) {
  const std::set<int> before = listening_ports();
  const auto wire = ucx::open_wire({.devices = "lo", .ports = "23300-23399"});
  int inside = 0;
  for (const int port : listening_ports()) {
    if (!before.contains(port) && port >= 23'300 && port <= 23'399) ++inside;
  }
  EXPECT_EQ(inside, 1);
}

TEST(UcxWire, ADeviceThatIsNotThereIsNamed) {
  try {
    ucx::open_wire({.devices = "nosuchdevice0"});
    FAIL() << "there is no such device";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nosuchdevice0"), std::string::npos) << error.what();
  }
}

TEST(ControlDoor, ListensInsideTheRangeAndSaysWhenItIsFull) {
  const ControlDoor first("127.0.0.1", {23'200, 23'201}), second("127.0.0.1", {23'200, 23'201});
  EXPECT_NE(first.address(), second.address());
  for (const ControlDoor* door : {&first, &second}) {
    const std::uint16_t port = parse_address(door->address()).port;
    EXPECT_TRUE(port == 23'200 || port == 23'201) << port;
  }
  try {
    const ControlDoor third("127.0.0.1", {23'200, 23'201});
    FAIL() << "both ports are taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("23200"), std::string::npos) << error.what();
  }
}

TEST(Hosts, KnowWhoIsWhereAndWhatTimeItIsThere) {
  ucx::run_hosts(4, 2, [](Endpoint& endpoint) {
    EXPECT_EQ(endpoint.facts().hosts, (std::vector<int>{0, 0, 1, 1}));
    EXPECT_EQ(endpoint.facts().backend, "hosts");
    EXPECT_NE(endpoint.facts().network.find("lo"), std::string::npos);
    for (Rank peer = 0; peer < 4; ++peer) EXPECT_LT(std::abs(seconds(endpoint.clock_offset(peer))), 0.5);
  });
}

// The one that leaves is gone long before the other looks; nothing of what it sent is lost.
TEST(Hosts, WhoLeavesWaitsUntilItsLastMessagesAreTaken) {
  ucx::run_hosts(2, 1, [](Endpoint& endpoint) {
    std::vector<int> numbers(12'000);  // several frames' worth of eager messages
    if (endpoint.rank() == 0) {
      for (int i = 0; i < 10; ++i) {
        numbers.assign(numbers.size(), i);
        endpoint.send(1, kTag, std::as_bytes(std::span(numbers))).wait();
      }
      endpoint.close();
      return;
    }
    std::this_thread::sleep_for(milliseconds(300));
    for (int i = 0; i < 10; ++i) {
      endpoint.receive(0, kTag, std::as_writable_bytes(std::span(numbers))).wait();
      EXPECT_EQ(numbers.front(), i);
      EXPECT_EQ(numbers.back(), i);
    }
    EXPECT_THROW(endpoint.receive(0, kTag, std::as_writable_bytes(std::span(numbers))).wait(), Error);
    EXPECT_FALSE(endpoint.lost(0));
  });
}

void meet(Endpoint& endpoint) {
  Pending sent = endpoint.send(1 - endpoint.rank(), {kTag.context, 1000}, {});
  endpoint.receive(1 - endpoint.rank(), {kTag.context, 1000}, std::span<std::byte>{}).wait();
  sent.wait();
}

// Of several frames, and still nothing has to come back before it is sent.
TEST(Hosts, AMessageThatFitsIntoTheWindowNeedsNoReceiverYet) {
  ucx::run_hosts(2, 1, [](Endpoint& endpoint) {
    std::vector<int> numbers(40'000, 7 + endpoint.rank());
    endpoint.send(1 - endpoint.rank(), kTag, std::as_bytes(std::span(numbers))).wait();
    meet(endpoint);
    std::vector<int> theirs(numbers.size());
    endpoint.receive(1 - endpoint.rank(), kTag, std::as_writable_bytes(std::span(theirs))).wait();
    EXPECT_EQ(theirs, std::vector<int>(40'000, 8 - endpoint.rank()));
  });
}

// Every way in which such a message can end gives its credit back: after many of them the next one still needs no
// receiver.
TEST(Hosts, TheWindowIsWholeAgainHoweverMessagesEnd) {
  ucx::run_hosts(2, 1, [](Endpoint& endpoint) {
    const Rank peer = 1 - endpoint.rank();
    const std::vector<std::byte> data(150'000);
    std::vector<std::byte> into(data.size()), little(10);
    for (std::uint64_t round = 0; round < 20; ++round) {
      { Pending dropped = endpoint.send(peer, {100 + round, 2}, data); }  // given up, maybe half way
      Pending refused = endpoint.send(peer, {kTag.context, 6}, data);     // does not fit
      Pending forgotten = endpoint.send(peer, {100 + round, 1}, data);    // for a group that is gone
      Pending taken = endpoint.send(peer, {kTag.context, 7 + round}, data);
      EXPECT_THROW(endpoint.receive(peer, {kTag.context, 6}, std::span(little)).wait(), Error);
      endpoint.receive(peer, {kTag.context, 7 + round}, into).wait();
      meet(endpoint);
      endpoint.retire(100 + round);
      meet(endpoint);
    }
    meet(endpoint);
    Pending last = endpoint.send(peer, {kTag.context, 8}, data);
    last.wait();
    meet(endpoint);
    endpoint.receive(peer, {kTag.context, 8}, into).wait();
  });
}

// A board is answered for while its owner computes.
TEST(Hosts, AskForTheBoardOfARankThatComputes) {
  ucx::run_hosts(2, 1, [](Endpoint& endpoint) {
    BoardRecord record{};
    record.fill(40 + static_cast<std::uint64_t>(endpoint.rank()));
    endpoint.publish(2, record, Wake::no);
    if (endpoint.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(400));  // not inside any call of the endpoint
    } else {
      std::optional<BoardRecord> theirs;
      for (int look = 0; look < 30 && !theirs; ++look) {
        theirs = endpoint.read_board(1, 2);
        if (!theirs) std::this_thread::sleep_for(milliseconds(10));
      }
      ASSERT_TRUE(theirs.has_value());
      EXPECT_EQ(theirs->front(), 41u);
    }
    // Both are here.
    Pending sent = endpoint.send(1 - endpoint.rank(), kTag, {});
    endpoint.receive(1 - endpoint.rank(), kTag, std::span<std::byte>{}).wait();
    sent.wait();
  });
}

// Someone who connects to the control port and knows no token is sent away, and the job meets all the same.
TEST(Hosts, AStrangerAtTheDoorDoesNotStopAJob) {
  ControlDoor doors[2] = {ControlDoor("127.0.0.1"), ControlDoor("127.0.0.1")};
  const std::vector<std::string> addresses = {doors[0].address(), doors[1].address()};
  const SocketAddress target = resolve(parse_address(addresses[0]));
  const Descriptor stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(stranger.number(), target.get(), target.length), 0);
  const char nonsense[64] = "GET / HTTP/1.0";
  ASSERT_EQ(::send(stranger.number(), nonsense, sizeof nonsense, 0), static_cast<ssize_t>(sizeof nonsense));
  const auto meet = [&](Rank rank) {
    std::vector<std::string> others = addresses;
    others[static_cast<std::size_t>(rank)].clear();
    return std::make_unique<Control>(std::move(doors[rank]),
                                     Control::Options{.rank = rank,
                                                      .token = token_of('t'),
                                                      .addresses = others,
                                                      .identities = std::vector<Identity>(2),
                                                      .deadline = SteadyClock().after(std::chrono::seconds(20)),
                                                      .own_board = [](std::size_t) { return std::nullopt; }});
  };
  std::unique_ptr<Control> zero;
  std::jthread first([&] { zero = meet(0); });
  const auto one = meet(1);
  first.join();
  EXPECT_EQ(zero->strangers(), 1u);
}

}  // namespace
}  // namespace paceline
