// Tables between real processes: what reads contain, and what becomes of a job when a worker or a server is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "paceline/collective/mismatch_test_support.hpp"
#include "paceline/server/server_history_support.hpp"
#include "paceline/server/server_tree.hpp"
#include "paceline/server/table_snapshot.hpp"
#include "tests/process/processes.hpp"

namespace paceline {
namespace {

using collective_test::error_of;
using collective_test::Shared;
using server_test::run_rank;
using server_test::TestJob;
using server_test::work;

constexpr std::size_t kMostRanks = 8;
constexpr std::size_t kMostEvents = 1000;

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

// ---- what reads contain

// An Event without memory of its own, to be seen by other processes.
struct FlatEvent {
  Event::Kind kind;
  std::int64_t clock;
  std::int64_t own;
  std::int64_t stamp;
  std::array<std::int64_t, kMostRanks> contained;
};
struct Record {
  std::array<std::array<FlatEvent, kMostEvents>, kMostRanks> events;
  std::array<std::size_t, kMostRanks> counts;

  void add(const Event& event) {
    const std::size_t worker = index(event.worker);
    FlatEvent& flat = events[worker].at(counts[worker]++);
    flat = {.kind = event.kind, .clock = event.clock, .own = event.own, .stamp = event.stamp, .contained = {}};
    std::copy(event.contained.begin(), event.contained.end(), flat.contained.begin());
  }
  std::vector<History> histories(int workers) const {
    std::vector<History> all(index(workers));
    for (std::size_t w = 0; w < all.size(); ++w) {
      for (std::size_t i = 0; i < counts[w]; ++i) {
        const FlatEvent& flat = events[w][i];
        Event event{.kind = flat.kind, .worker = static_cast<int>(w), .clock = flat.clock, .own = flat.own};
        event.stamp = flat.stamp;
        if (flat.kind == Event::Kind::read)
          event.contained.assign(flat.contained.begin(), flat.contained.begin() + workers);
        all[w].push_back(std::move(event));
      }
    }
    return all;
  }
};

TEST(ServerProcesses, EveryReadKeepsThePolicysPromise) {
  for (const char* policy : {"bsp", "ssp:0", "ssp:2", "essp:2", "async"}) {
    const TestJob job{.workers = 3, .servers = 2, .policy = parse_policy(policy)};
    const Shared<Record> record;
    process_test::run_processes(job.workers + job.servers, [&](Endpoint& endpoint) {
      run_rank(job, endpoint, [&](Session& session, Endpoint& own) {
        work(job, session, own, 150, [&](const Event& event) { record->add(event); });
        EXPECT_EQ(session.staleness().violations(), 0);
      });
    });
    const auto broken = check_history(job.policy, merge_histories(record->histories(job.workers)), job.workers);
    EXPECT_FALSE(broken) << policy << ": " << broken->sentence;
  }
  process_test::expect_nothing_left();
}

// Two servers, two relays with two workers each.
TEST(ServerProcesses, EveryReadBehindRelaysKeepsThePolicysPromise) {
  for (const char* policy : {"bsp", "ssp:2", "essp:1"}) {
    const ServerTree tree{.servers = {4, 5},
                          .workers = {0, 1, 2, 3},
                          .branches = {{6, {0, 1}}, {7, {2, 3}}},
                          .policy = parse_policy(policy)};
    const TestJob job{.workers = 4};
    const Shared<Record> record;
    process_test::run_processes(8, [&](Endpoint& endpoint) {
      if (is_server(tree, endpoint.rank())) return serve(endpoint, serve_options(tree, endpoint.rank()));
      if (is_relay(tree, endpoint.rank())) return serve_relay(endpoint, relay_options(tree, endpoint.rank()));
      Session session(endpoint, session_options(tree, endpoint.rank()));
      work(job, session, endpoint, 100, [&](const Event& event) { record->add(event); });
      EXPECT_EQ(session.staleness().violations(), 0);
      session.leave();
    });
    const auto broken = check_history(tree.policy, merge_histories(record->histories(job.workers)), job.workers);
    EXPECT_FALSE(broken) << policy << ": " << broken->sentence;
  }
  process_test::expect_nothing_left();
}

// ---- deaths

struct Notes {
  std::array<std::atomic<pid_t>, kMostRanks> pids;
  std::array<std::atomic<int>, kMostRanks> steps;
};

// Steps until the end, or until somebody's death ends them.
void step_on(const TestJob& job, Session& session, Endpoint& endpoint, int steps, Notes& notes,
             const std::function<void(int)>& before_step) {
  const auto rows = static_cast<std::uint64_t>(64 * job.workers);
  Table table = session.open({.name = "w", .kind = TableSpec::Kind::dense, .rows = rows});
  std::vector<float> values(rows);
  const std::vector<float> changes(rows, 1);
  for (int step = 0; step < steps; ++step) {
    before_step(step);
    table.get({0, rows}, values);
    table.inc({0, rows}, changes);
    session.clock();
    notes.steps[index(endpoint.rank())] = step + 1;
  }
}

std::string who(Rank rank, const Notes& notes) {
  return "rank " + std::to_string(rank) + " (host this host, pid " + std::to_string(notes.pids[index(rank)].load()) +
         ")";
}

TEST(ServerProcesses, WhereThePolicyAllowsItTheOthersGoOnWithoutAWorkerThatWasKilled) {
  for (const char* policy : {"ssp:2", "essp:2", "async"}) {
    const TestJob job{.workers = 3, .servers = 2, .policy = parse_policy(policy)};
    const Rank victim = 1;
    const Shared<Notes> notes;
    process_test::run_processes(5,
                                [&](Endpoint& endpoint) {
                                  run_rank(job, endpoint, [&](Session& session, Endpoint& own) {
                                    step_on(job, session, own, 60, *notes, [&](int step) {
                                      if (own.rank() == victim && step == 10) raise(SIGKILL);
                                    });
                                  });
                                },
                                {victim});
    for (const Rank rank : {0, 2}) EXPECT_EQ(notes->steps[index(rank)], 60) << policy;
    EXPECT_EQ(notes->steps[index(victim)], 10);
  }
  process_test::expect_nothing_left();
}

TEST(ServerProcesses, AWorkerThatIsKilledWithASnapshotOpenHoldsUpNobody) {
  const TestJob job{.workers = 3, .servers = 2, .policy = parse_policy("ssp:2")};
  const Rank victim = 1;
  const Shared<Notes> notes;
  process_test::run_processes(5,
                              [&](Endpoint& endpoint) {
                                run_rank(job, endpoint, [&](Session& session, Endpoint& own) {
                                  Table table =
                                      session.open({.name = "d", .kind = TableSpec::Kind::dense, .rows = 200'000});
                                  const auto read = [&] {
                                    TableSnapshot snapshot = table.snapshot();
                                    std::uint64_t rows = 0;
                                    while (const auto piece = snapshot.next()) {
                                      rows += piece->size();
                                      if (own.rank() == victim) raise(SIGKILL);
                                    }
                                    EXPECT_EQ(rows, 200'000u);
                                  };
                                  step_on(job, session, own, 40, *notes, [&](int step) {
                                    if (step % 10 == (own.rank() == victim ? 5 : 9)) read();
                                  });
                                });
                              },
                              {victim});
  for (const Rank rank : {0, 2}) EXPECT_EQ(notes->steps[index(rank)], 40);
  EXPECT_EQ(notes->steps[index(victim)], 5);
  process_test::expect_nothing_left();
}

// All but the victim get an Error that names it, soon. The rest of the job ends too.
void expect_error_on_all(const TestJob& job, Rank victim,
                         const std::function<void(Endpoint&, Notes&, int)>& before_step) {
  const Shared<Notes> notes;
  process_test::run_processes(
      job.workers + job.servers,
      [&](Endpoint& endpoint) {
        notes->pids[index(endpoint.rank())] = getpid();
        if (endpoint.rank() >= job.workers) return run_rank(job, endpoint, {});
        Session session(endpoint, job.session(endpoint.rank()));
        const TimePoint start = endpoint.clock().now();
        const auto error = error_of([&] {
          step_on(job, session, endpoint, 1'000'000, *notes, [&](int step) { before_step(endpoint, *notes, step); });
        });
        ASSERT_TRUE(error) << job.policy.text();
        EXPECT_EQ(error->code(), Code::peer_lost) << error->what();
        EXPECT_NE(std::string(error->what()).find(who(victim, *notes)), std::string::npos) << error->what();
        EXPECT_LT(endpoint.clock().now() - start, std::chrono::seconds(10));
      },
      {victim});
  process_test::expect_nothing_left();
}

TEST(ServerProcesses, UnderBspTheDeathOfAWorkerIsAnErrorOnAllThatNamesIt) {
  const TestJob job{.workers = 3, .servers = 2};
  expect_error_on_all(job, 1, [](Endpoint& endpoint, Notes&, int step) {
    if (endpoint.rank() == 1 && step == 10) raise(SIGKILL);
  });
}

TEST(ServerProcesses, TheDeathOfAServerIsAnErrorOnAllWorkersThatNamesIt) {
  for (const char* policy : {"bsp", "ssp:2", "essp:2", "async"}) {
    const TestJob job{.workers = 3, .servers = 2, .policy = parse_policy(policy)};
    const Rank victim = 4;
    expect_error_on_all(job, victim, [&](Endpoint& endpoint, Notes& notes, int step) {
      if (endpoint.rank() == 0 && step == 10) kill(notes.pids[index(victim)], SIGKILL);
    });
  }
}

}  // namespace
}  // namespace paceline
