// What becomes of a job when one of its processes is killed or stopped at any moment.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "paceline/collective/collective_test_support.hpp"
#include "paceline/collective/mismatch_test_support.hpp"
#include "tests/process/processes.hpp"

namespace paceline {
namespace {

using namespace collective_test;
using process_test::run_processes;
using std::chrono::milliseconds;

constexpr std::size_t kMaxRanks = 8;

// What the processes of one test tell each other, and the test, without paceline.
struct Notes {
  std::array<std::atomic<pid_t>, kMaxRanks> pids;
  std::array<std::atomic<std::int64_t>, kMaxRanks> killed_at;
  std::array<std::atomic<std::int64_t>, kMaxRanks> failed_at;
  std::atomic<int> warnings;
};

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::atomic<std::int64_t>* moment_of_death = nullptr;

void die(int) {
  moment_of_death->store(now());
  raise(SIGKILL);
}

// This process dies in so many microseconds, wherever it is then.
void die_after(std::uint64_t microseconds, std::atomic<std::int64_t>& moment) {
  moment_of_death = &moment;
  struct sigaction action {};
  action.sa_handler = die;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval span{.it_interval = {},
                       .it_value = {.tv_sec = 0, .tv_usec = static_cast<suseconds_t>(1 + microseconds)}};
  setitimer(ITIMER_REAL, &span, nullptr);
}

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

void note_pid(Endpoint& endpoint, Notes& notes) {
  notes.pids[index(endpoint.rank())] = getpid();
  meet(endpoint, 1);
}

void expect_names_the_dead(const Error& error, const Notes& notes, const std::set<Rank>& victims, Collective op) {
  EXPECT_EQ(error.code(), Code::peer_lost) << error.what();
  ASSERT_TRUE(victims.contains(error.rank())) << error.what();
  const std::string who =
      fmt::format("rank {} (host this host, pid {})", error.rank(), notes.pids[index(error.rank())].load());
  EXPECT_TRUE(contains(error.what(), who) && contains(error.what(), fmt::format("{} #", name(op)))) << error.what();
}

void expect_all_work(Communicator& world) {
  std::vector<int> ones(10'000, 1);
  for (int i = 0; i < 3; ++i) {
    std::fill(ones.begin(), ones.end(), 1);
    world.allreduce(view(ones));
    EXPECT_EQ(std::count(ones.begin(), ones.end(), world.size()), std::ssize(ones));
  }
  world.barrier();
}

// Ranks do one operation over and over until `victim` dies somewhere in it.
void kill_during(const Case& one, int n, Rank victim, std::uint64_t seed) {
  SCOPED_TRACE(fmt::format("{}; of {} ranks {} dies, seed {}", one.text(), n, victim, seed));
  const Shared<Notes> notes;
  const auto body = [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(n), {.segment_bytes = 64 << 10});
    Memory memory(endpoint, 4 << 20);
    note_pid(endpoint, *notes);
    if (endpoint.rank() == victim) die_after(Random(seed, index(victim)).below(3000), notes->killed_at[index(victim)]);
    Trial trial(world, memory, one);
    const auto error = error_of([&] {
      for (;;) trial.call();
    });
    notes->failed_at[index(endpoint.rank())] = now();
    expect_names_the_dead(*error, *notes, {victim}, one.op);
    Communicator next = world.recover();
    EXPECT_EQ(next.size(), n - 1);
    expect_all_work(next);
  };
  run_processes(n, body, {victim});
  for (Rank rank = 0; rank < n; ++rank) {
    if (rank == victim) continue;
    EXPECT_LT(static_cast<double>(notes->failed_at[index(rank)] - notes->killed_at[index(victim)]) * 1e-9, 1.0)
        << "rank " << rank;
  }
}

class Kill : public testing::TestWithParam<Collective> {
  void TearDown() override { process_test::expect_nothing_left(); }
};
INSTANTIATE_TEST_SUITE_P(During, Kill, testing::ValuesIn(kAllCollectives),
                         [](const auto& which) { return std::string(name(which.param)); });

Case case_of(Collective op, std::uint64_t seed) {
  const std::int64_t counts[] = {10, 30'000, 30'000};
  const Where wheres[] = {Where::heap, Where::heap, Where::arena};
  return {.op = op, .count = counts[seed % 3], .where = wheres[seed % 3], .salt = 1};
}

TEST_P(Kill, OfAnyRankIsAnErrorOnAllOthersThatNamesItAndTheyGoOn) {
  for (std::uint64_t seed = 0; seed < 6; ++seed)
    kill_during(case_of(GetParam(), seed), 4, static_cast<Rank>(seed % 4), seed);
}

TEST_P(Kill, SlowOfAnyRankAtManyMoments) {
  for (const int n : {2, 3, 5}) {
    for (std::uint64_t seed = 0; seed < 60; ++seed)
      kill_during(case_of(GetParam(), seed), n, static_cast<Rank>(seed % static_cast<std::uint64_t>(n)), seed);
  }
}

class Job : public testing::Test {
  void TearDown() override { process_test::expect_nothing_left(); }
};

// A survivor's way: works, and recovers as often as it must, until only `left` are left and all works.
void work_until(
    Communicator& world, int left, const std::function<void()>& before_recovery = [] {}) {
  std::vector<float> x(20'000);
  for (;;) {
    const auto error = error_of([&] {
      while (world.size() > left) world.allreduce(view(x));
      expect_all_work(world);
    });
    if (!error) return;
    EXPECT_EQ(error->code(), Code::peer_lost) << error->what();
    before_recovery();
    world = world.recover();
  }
}

TEST_F(Job, SurvivesTwoDeathsAtAboutTheSameTime) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const Shared<Notes> notes;
    run_processes(5,
                  [&](Endpoint& endpoint) {
                    Communicator world(endpoint, Group::world(5));
                    note_pid(endpoint, *notes);
                    if (endpoint.rank() % 3 == 0)
                      die_after(Random(seed, index(endpoint.rank())).below(1000),
                                notes->killed_at[index(endpoint.rank())]);
                    work_until(world, 3);
                    EXPECT_EQ(world.group().ranks(), (std::vector<Rank>{1, 2, 4}));
                  },
                  {0, 3});
  }
}

TEST_F(Job, SurvivesADeathDuringARecovery) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const Shared<Notes> notes;
    run_processes(4,
                  [&](Endpoint& endpoint) {
                    Communicator world(endpoint, Group::world(4));
                    note_pid(endpoint, *notes);
                    if (endpoint.rank() == 0) die_after(500, notes->killed_at[0]);
                    work_until(world, 2, [&] {
                      if (endpoint.rank() == 2) die_after(Random(seed, 2).below(300), notes->killed_at[2]);
                    });
                    EXPECT_EQ(world.group().ranks(), (std::vector<Rank>{1, 3}));
                  },
                  {0, 2});
  }
}

TEST_F(Job, LosesAllButOne) {
  const Shared<Notes> notes;
  run_processes(4,
                [&](Endpoint& endpoint) {
                  Communicator world(endpoint, Group::world(4));
                  note_pid(endpoint, *notes);
                  if (endpoint.rank() != 2)
                    die_after(300 * index(endpoint.rank()), notes->killed_at[index(endpoint.rank())]);
                  work_until(world, 1);
                  EXPECT_EQ(world.group().ranks(), std::vector<Rank>{2});
                },
                {0, 1, 3});
}

TEST_F(Job, LosesARankThatOthersOnlyPollFor) {
  const Shared<Notes> notes;
  run_processes(2,
                [&](Endpoint& endpoint) {
                  Communicator world(endpoint, Group::world(2));
                  note_pid(endpoint, *notes);
                  if (endpoint.rank() == 1) {
                    notes->killed_at[1] = now();
                    raise(SIGKILL);
                  }
                  std::vector<float> x(10);
                  Handle handle = world.start_allreduce(view(x));
                  while (!handle.test() && (notes->killed_at[1] == 0 || now() - notes->killed_at[1] < 1'000'000'000)) {
                  }
                  ASSERT_TRUE(handle.test());
                  const auto error = error_of([&] { handle.wait(); });
                  ASSERT_TRUE(error);
                  expect_names_the_dead(*error, *notes, {1}, Collective::allreduce);
                },
                {1});
}

TEST_F(Job, LosesTheRootToWhichOthersOnlySend) {
  const Shared<Notes> notes;
  run_processes(3,
                [&](Endpoint& endpoint) {
                  Communicator world(endpoint, Group::world(3));
                  note_pid(endpoint, *notes);
                  if (endpoint.rank() == 0) {
                    notes->killed_at[0] = now();
                    raise(SIGKILL);
                  }
                  std::vector<float> x(1);
                  const auto error = error_of([&] {
                    for (;;) {
                      world.reduce(view(x), 0);
                      // Computes for a while: no more than a few operations fit into the second.
                      const std::int64_t until = now() + 100'000'000;
                      while (now() < until) {
                      }
                    }
                  });
                  notes->failed_at[index(endpoint.rank())] = now();
                  expect_names_the_dead(*error, *notes, {0}, Collective::reduce);
                  world = world.recover();
                  EXPECT_EQ(world.size(), 2);
                  expect_all_work(world);
                },
                {0});
  for (const Rank rank : {1, 2}) EXPECT_LT(notes->failed_at[index(rank)] - notes->killed_at[0], 1'000'000'000);
}

TEST_F(Job, LosesAMemberOfOneHalfOnly) {
  const Shared<Notes> notes;
  run_processes(4,
                [&](Endpoint& endpoint) {
                  Communicator world(endpoint, Group::world(4));
                  Communicator half = world.split(endpoint.rank() / 2, 0);
                  note_pid(endpoint, *notes);
                  if (endpoint.rank() == 3) raise(SIGKILL);
                  std::vector<float> x(10, 1.0f);
                  // The other half goes on until the world is seen to be broken.
                  const auto error = error_of([&] { half.allreduce(view(x)); });
                  if (endpoint.rank() == 2) {
                    ASSERT_TRUE(error);
                    expect_names_the_dead(*error, *notes, {3}, Collective::allreduce);
                  }
                  const auto of_world = error_of([&] { world.allreduce(view(x)); });
                  ASSERT_TRUE(of_world);
                  expect_names_the_dead(*of_world, *notes, {3}, Collective::allreduce);
                  world = world.recover();
                  EXPECT_EQ(world.size(), 3);
                  expect_all_work(world);
                },
                {3});
}

// ---- stopped, not dead

CommunicatorOptions impatient(Notes& notes, std::string& warning, std::function<void()> then) {
  return {.late_after = milliseconds(150), .warn = [&notes, &warning, then](const std::string& text) {
            warning = text;
            ++notes.warnings;
            then();
          }};
}

TEST_F(Job, WaitsForAStoppedRankAndSaysWhatItDidLast) {
  const Shared<Notes> notes;
  run_processes(3, [&](Endpoint& endpoint) {
    std::string warning;
    Communicator world(endpoint, Group::world(3), impatient(*notes, warning, [&] { kill(notes->pids[1], SIGCONT); }));
    note_pid(endpoint, *notes);
    world.barrier({.name = "before"});
    if (endpoint.rank() == 1) raise(SIGSTOP);
    std::vector<int> x(1000, 1);
    world.allreduce(view(x), ReduceOp::sum, {.name = "gradient"});
    EXPECT_EQ(x, std::vector<int>(1000, 3));
    if (endpoint.rank() == 0) {
      EXPECT_TRUE(contains(warning, "allreduce #2 'gradient'") &&
                  contains(warning, "missing: rank 1 (host this host, pid"))
          << warning;
      EXPECT_TRUE(contains(warning, "barrier #1 'before'")) << warning;
    } else {
      EXPECT_EQ(warning, "");
    }
  });
  EXPECT_EQ(notes->warnings, 1);
}

// The rank that would warn is itself the one that stands still.
TEST_F(Job, WarnsWhenItsLowestRankIsStoppedInsideTheOperation) {
  const Shared<Notes> notes;
  run_processes(3, [&](Endpoint& endpoint) {
    std::string warning;
    Communicator world(endpoint, Group::world(3), impatient(*notes, warning, [&] { kill(notes->pids[0], SIGCONT); }));
    note_pid(endpoint, *notes);
    std::vector<int> x(100'000, 1);
    Handle handle = world.start_allreduce(view(x), ReduceOp::sum, {.name = "gradient"});
    if (endpoint.rank() == 0) raise(SIGSTOP);
    handle.wait();
    EXPECT_EQ(x, std::vector<int>(100'000, 3));
    if (endpoint.rank() == 1) {
      EXPECT_TRUE(contains(warning, "all ranks have reached it") && contains(warning, "rank 0 (host this host, pid"))
          << warning;
    }
  });
  EXPECT_GE(notes->warnings, 1);
}

TEST_F(Job, GivesUpAStoppedRankAtTheDeadlineAndTakesItBack) {
  const Shared<Notes> notes;
  run_processes(3, [&](Endpoint& endpoint) {
    Communicator world(endpoint, Group::world(3));
    note_pid(endpoint, *notes);
    if (endpoint.rank() == 2) raise(SIGSTOP);
    std::vector<float> x(100'000);
    const std::int64_t start = now();
    const auto error =
        error_of([&] { world.allreduce(view(x), ReduceOp::sum, {.name = "x", .timeout = milliseconds(200)}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::timeout) << error->what();
    EXPECT_TRUE(contains(error->what(), "allreduce #1 'x'")) << error->what();
    EXPECT_LT(now() - start, 1'000'000'000);
    if (endpoint.rank() == 0) kill(notes->pids[2], SIGCONT);
    world = world.recover();
    EXPECT_EQ(world.size(), 3);
    expect_all_work(world);
  });
}

TEST_F(Job, LosesAStoppedRankThatIsKilled) {
  const Shared<Notes> notes;
  run_processes(3,
                [&](Endpoint& endpoint) {
                  std::string warning;
                  Communicator world(endpoint, Group::world(3), impatient(*notes, warning, [&] {
                                       notes->killed_at[1] = now();
                                       kill(notes->pids[1], SIGKILL);
                                     }));
                  note_pid(endpoint, *notes);
                  if (endpoint.rank() == 1) raise(SIGSTOP);
                  std::vector<float> x(100'000);
                  const auto error = error_of([&] { world.allreduce(view(x)); });
                  ASSERT_TRUE(error);
                  EXPECT_LT(now() - notes->killed_at[1], 1'000'000'000);
                  expect_names_the_dead(*error, *notes, {1}, Collective::allreduce);
                  world = world.recover();
                  expect_all_work(world);
                },
                {1});
}

}  // namespace
}  // namespace paceline
