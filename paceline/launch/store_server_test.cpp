#include "paceline/launch/store_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/launch/store_client.hpp"
#include "paceline/launch/store_host.hpp"

namespace paceline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Terms kTerms = {.secret = "the job's secret"};

Descriptor stranger(const Address& address) {
  const SocketAddress to = resolve(address);
  Descriptor socket(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const linger leave_no_trace = {1, 0};  // thousands of ports in TIME_WAIT would be missed by the next test
  setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &leave_no_trace, sizeof leave_no_trace);
  EXPECT_EQ(connect(socket.number(), to.get(), to.length), 0) << errno;
  return socket;
}

void say(const Descriptor& socket, std::string_view bytes) {
  send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The server in the test's own hands.
class Server : public testing::Test {
 protected:
  void start(StoreServerOptions options) {
    options.terms = kTerms;
    server_.emplace(std::move(options), clock_);
  }
  // Lets the server work until the condition holds; false if it does not within ten seconds.
  bool serve_until(const std::function<bool()>& condition) {
    const TimePoint deadline = clock_.after(seconds(10));
    while (!condition() && clock_.now() < deadline) {
      pollfd entry = {server_->descriptor(), POLLIN, 0};
      poll(&entry, 1, 20);
      server_->progress();
    }
    return condition();
  }
  bool closed_by_server(const Descriptor& socket) {
    return serve_until([&] {
      char byte = 0;
      const ssize_t got = recv(socket.number(), &byte, 1, MSG_DONTWAIT);
      return got == 0 || (got < 0 && errno != EAGAIN);
    });
  }

  SteadyClock clock_;
  std::optional<StoreServer> server_;
};

TEST_F(Server, RefusesToListenBeyondLoopbackWithoutASecret) {
  EXPECT_THROW(StoreServer({.address = {"0.0.0.0", 0}, .terms = {}}, clock_), Error);
  EXPECT_NO_THROW(StoreServer({.address = {"127.0.0.1", 0}, .terms = {}}, clock_));
  EXPECT_NO_THROW(StoreServer({.address = {"0.0.0.0", 0}, .terms = kTerms}, clock_));
}

TEST_F(Server, ATakenPortIsAnErrorThatNamesTheAddress) {
  start({});
  try {
    StoreServer({.address = server_->address(), .terms = kTerms}, clock_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(to_string(server_->address())), std::string::npos);
  }
}

TEST_F(Server, ClosesTheConnectionOfAnybodyWhoTalksGarbage) {
  start({});
  for (const char* garbage : {"GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff", "PACELINx", "\x16\x03\x01"}) {
    const Descriptor socket = stranger(server_->address());
    say(socket, garbage);
    EXPECT_TRUE(closed_by_server(socket)) << garbage;
  }
  EXPECT_EQ(server_->strangers(), 0u);
}

TEST_F(Server, WhoDoesNotProveItselfInTimeIsClosed) {
  start({.proof_timeout = milliseconds(150)});
  const Descriptor silent = stranger(server_->address());
  const Descriptor slow = stranger(server_->address());
  say(slow, "PACEL");
  ASSERT_TRUE(serve_until([&] { return server_->strangers() == 2; }));
  EXPECT_TRUE(closed_by_server(silent));
  EXPECT_TRUE(closed_by_server(slow));
}

TEST_F(Server, TheOldestStrangerMakesRoomForANewOne) {
  start({.max_strangers = 3});
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 5; ++i) {
    sockets.push_back(stranger(server_->address()));
    ASSERT_TRUE(serve_until([&] { return server_->strangers() == static_cast<std::size_t>(std::min(i + 1, 3)); }));
  }
  EXPECT_TRUE(closed_by_server(sockets[0]));
  EXPECT_TRUE(closed_by_server(sockets[1]));
  EXPECT_EQ(server_->strangers(), 3u);
}

TEST_F(Server, WithoutDescriptorsItWaitsInsteadOfSpinning) {
  start({});
  const Descriptor socket = stranger(server_->address());
  rlimit original = {};
  getrlimit(RLIMIT_NOFILE, &original);
  rlimit none = original;
  none.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &none);
  server_->progress();
  pollfd entry = {server_->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 0), 0) << "it would be called again at once";
  setrlimit(RLIMIT_NOFILE, &original);
  EXPECT_TRUE(serve_until([&] { return server_->strangers() == 1; }));
}

TEST_F(Server, AnIdleServerNeverWakesItsOwner) {
  start({});
  { const Descriptor socket = stranger(server_->address()); }
  ASSERT_TRUE(serve_until([&] { return server_->strangers() == 1; }));
  ASSERT_TRUE(serve_until([&] { return server_->strangers() == 0; }));
  const auto quiet = [&] {
    pollfd entry = {server_->descriptor(), POLLIN, 0};
    return poll(&entry, 1, 300) == 0;
  };
  EXPECT_TRUE(serve_until(quiet));
  EXPECT_TRUE(quiet());
}

// The server on a thread of its own, as in a job without a launcher.
class HostedStore : public testing::Test {
 protected:
  StoreClient client(const Terms& terms = kTerms) {
    return {host_.address(), terms, clock_.after(seconds(30)), clock_};
  }
  TimePoint soon() const { return clock_.after(milliseconds(100)); }
  TimePoint late() const { return clock_.after(seconds(30)); }

  SteadyClock clock_;
  StoreHost host_{{.terms = kTerms}, clock_};
};

TEST_F(HostedStore, SetGetAndClaimWork) {
  auto one = client();
  auto two = client();
  one.set("key", "value", late());
  EXPECT_EQ(two.get("key", late()), "value");
  EXPECT_TRUE(one.claim("mine", "1", late()));
  EXPECT_FALSE(two.claim("mine", "2", late()));
}

TEST_F(HostedStore, AGetWaitsForTheSetOfAnother) {
  auto waiting = client();
  std::jthread other([this] { client().set("key", std::string(kMaxValueBytes, 'v'), late()); });
  EXPECT_EQ(waiting.get("key", late()), std::string(kMaxValueBytes, 'v'));
}

TEST_F(HostedStore, ManyValuesAreCollectedAtOnce) {
  auto one = client();
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) {
    keys.push_back("key/" + std::to_string(i));
    one.set(keys.back(), std::to_string(i), late());
  }
  const auto values = one.collect(keys, late());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], std::to_string(i));
}

TEST_F(HostedStore, ValuesThatDidNotComeAreLeftOutOfACollection) {
  auto one = client();
  one.set("a", "1", late());
  one.set("c", "3", late());
  const auto values = one.collect({"a", "b", "c"}, clock_.after(milliseconds(500)));
  EXPECT_EQ(values, (std::vector<std::optional<std::string>>{"1", std::nullopt, "3"}));
}

TEST_F(HostedStore, AGetWithoutASetEndsAtItsDeadline) {
  auto one = client();
  try {
    one.get("never", soon());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
  }
  one.set("key", "value", late());  // the connection is still good
  EXPECT_EQ(one.get("key", late()), "value");
}

TEST_F(HostedStore, AWrongSecretIsRefusedAtOnce) {
  try {
    client({.secret = "guess"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::refused);
  }
}

TEST_F(HostedStore, KeysAndValuesBeyondTheirLimitsAreRefusedHere) {
  auto one = client();
  EXPECT_THROW(one.set("", "v", late()), Error);
  EXPECT_THROW(one.set(std::string(kMaxKeyBytes + 1, 'k'), "v", late()), Error);
  EXPECT_THROW(one.set("k", std::string(kMaxValueBytes + 1, 'v'), late()), Error);
}

TEST_F(HostedStore, ThousandsOfStrangersDoNotStopTheJob) {
  std::atomic<bool> over = false;
  std::jthread crowd([&] {
    std::vector<Descriptor> held(600);  // some stay, half open, some leave at once
    for (std::size_t i = 0; i < 10'000; ++i) {
      Descriptor socket = stranger(host_.address());
      say(socket, i % 3 == 0 ? std::string_view("PACELINE") : i % 3 == 1 ? "garbage" : "");
      held[i % held.size()] = std::move(socket);
    }
    over = true;
  });
  int rounds = 0;
  auto steady = client();
  while (!over) {
    const std::string key = std::to_string(rounds++);
    auto newcomer = client();
    newcomer.set(key, key, late());
    EXPECT_EQ(steady.get(key, late()), key);
  }
  EXPECT_GT(rounds, 0);
}

TEST(StoreClient, WithoutAStoreItGivesUpAtItsDeadline) {
  const SteadyClock clock;
  Address nobody;
  {
    const StoreServer server({.terms = kTerms}, clock);
    nobody = server.address();
  }
  try {
    StoreClient(nobody, kTerms, clock.after(milliseconds(50)), clock);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
  }
}

TEST(StoreClient, WaitsForAStoreThatComesLater) {
  const SteadyClock clock;
  Address address;
  {
    const StoreServer server({.terms = kTerms}, clock);
    address = server.address();
  }
  std::optional<StoreHost> host;
  std::jthread late([&] { host.emplace(StoreServerOptions{.address = address, .terms = kTerms}, clock); });
  StoreClient client(address, kTerms, clock.after(seconds(30)), clock);
  client.set("key", "value", clock.after(seconds(30)));
}

TEST(StoreClient, LearnsThatTheStoreIsGone) {
  const SteadyClock clock;
  std::optional<StoreHost> host;
  host.emplace(StoreServerOptions{.terms = kTerms}, clock);
  StoreClient client(host->address(), kTerms, clock.after(seconds(30)), clock);
  host.reset();
  try {
    client.get("key", clock.after(seconds(30)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::peer_lost);
  }
}

TEST(StoreClient, DoesNotTalkToOtherMachinesWithoutASecret) {
  const SteadyClock clock;
  EXPECT_THROW(StoreClient({"192.0.2.1", 4711}, {}, clock.after(seconds(1)), clock), Error);
}

}  // namespace
}  // namespace paceline
