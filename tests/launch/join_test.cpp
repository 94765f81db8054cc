#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "paceline/core/clock.hpp"
#include "paceline/launch/store_server.hpp"
#include "tests/launch/command.hpp"

namespace paceline {
namespace {

using Lines = std::vector<std::string>;

// An address where nobody listens any more.
std::string free_address() {
  const SteadyClock clock;
  return to_string(StoreServer({.terms = {}}, clock).address());
}

Command worker(const std::string& rank, const std::string& size, const std::string& store, Lines more = {}) {
  more.insert(more.end(), {"PACELINE_RANK=" + rank, "PACELINE_SIZE=" + size, "PACELINE_STORE=" + store});
  return Command({PACELINE_WORKER}, more);
}

TEST(Join, AProgramStartedAloneIsAJobOfOne) { EXPECT_EQ(Command({PACELINE_WORKER}).wait().output, "rank 0 of 1\n"); }

TEST(Join, WorkersOfALauncherMeet) {
  for (int size : {1, 2, 5, 8}) {
    const std::string workers = std::to_string(size);
    const Ended ended = paceline_run({"-n", workers, PACELINE_WORKER}).wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    Lines expected;
    for (int rank = 0; rank < size; ++rank) {
      expected.push_back("[" + std::to_string(rank) + "] rank " + std::to_string(rank) + " of " + workers);
    }
    EXPECT_EQ(sorted_lines(ended.output), expected);
  }
}

TEST(Join, ThreeVariablesAreEnough) {
  const std::string store = free_address();
  Command two = worker("2", "3", store);
  Command one = worker("1", "3", store);
  Command zero = worker("0", "3", store);
  EXPECT_EQ(zero.wait().output, "rank 0 of 3\n");
  EXPECT_EQ(one.wait().output, "rank 1 of 3\n");
  EXPECT_EQ(two.wait().output, "rank 2 of 3\n");
}

TEST(Join, ASecretIsSharedByHandToo) {
  const std::string store = free_address();
  Command zero = worker("0", "2", store, {"PACELINE_SECRET=ours"});
  const Ended stranger = worker("1", "2", store, {"PACELINE_SECRET=theirs"}).wait();
  EXPECT_EQ(stranger.exit_code, 3);
  EXPECT_TRUE(contains(stranger.errors, "does not accept this worker's secret")) << stranger.errors;
  EXPECT_EQ(worker("1", "2", store, {"PACELINE_SECRET=ours"}).wait().output, "rank 1 of 2\n");
  EXPECT_EQ(zero.wait().output, "rank 0 of 2\n");
}

TEST(Join, AnIncompleteEnvironmentIsRefused) {
  const Ended ended = Command({PACELINE_WORKER}, {"PACELINE_RANK=0"}).wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_TRUE(contains(ended.errors, "PACELINE_RANK=0 set but not PACELINE_SIZE and PACELINE_STORE")) << ended.errors;
}

TEST(Join, ARankTakenTwiceIsRefused) {
  const std::string store = free_address();
  Command zero = worker("0", "3", store);
  Command one = worker("1", "3", store);
  // Whichever of the two comes second.
  Command again = worker("1", "3", store);
  EXPECT_TRUE(eventually([&] { return gone(one.pid()) || gone(again.pid()); }));
  Command& second = gone(again.pid()) ? again : one;
  const Ended ended = second.wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_TRUE(contains(ended.errors, "rank 1 of this job is already taken by process ")) << ended.errors;
}

TEST(Join, TheRanksThatDidNotComeAreNamed) {
  const Ended ended = worker("0", "4", free_address(), {"PACELINE_JOIN_TIMEOUT=0.3"}).wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_TRUE(contains(ended.errors, "ranks 1, 2, 3 of 4 did not join within 0.3 s")) << ended.errors;
}

TEST(Join, StrangersDoNotKeepTheWorkersApart) {
  Command job = run_script({"-n", "2"}, "echo store $PACELINE_STORE; read line; exec " PACELINE_WORKER);
  const std::string& said = job.read_until("store", 2);
  const std::size_t at = said.find("127.0.0.1:");
  const SocketAddress store = resolve(parse_address(said.substr(at, said.find('\n', at) - at)));
  std::vector<Descriptor> strangers(500);
  for (std::size_t i = 0; i < 3000; ++i) {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const linger leave_no_trace = {1, 0};
    setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &leave_no_trace, sizeof leave_no_trace);
    ASSERT_EQ(connect(socket.number(), store.get(), store.length), 0);
    send(socket.number(), "PACELINE nonsense", i % 17, MSG_NOSIGNAL);
    strangers[i % strangers.size()] = std::move(socket);
  }
  job.write("go\n");
  const Ended ended = job.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "[0] rank 0 of 2"));
  EXPECT_TRUE(contains(ended.output, "[1] rank 1 of 2"));
}

}  // namespace
}  // namespace paceline
