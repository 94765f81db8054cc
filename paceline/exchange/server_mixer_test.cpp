#include "paceline/exchange/server_mixer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <tuple>

#include "paceline/core/error.hpp"
#include "paceline/fabric/run_ranks.hpp"
#include "paceline/server/serve.hpp"
#include "paceline/server/table_snapshot.hpp"

namespace paceline {
namespace {

constexpr std::size_t kCount = 40'000;  // floats: enough to be read in place

struct Setup {
  std::string plan;
  int workers = 2;
  int servers = 2;
  std::string rule = "sgd:0.5";
  MixChoices choices = {};
};

// A worker's memory and mixer.
struct Member {
  Member(Endpoint& endpoint, Communicator& communicator, const Setup& setup)
      : parameters(endpoint.allocate(kCount * sizeof(float))), gradients(endpoint.allocate(kCount * sizeof(float))) {
    std::fill_n(parameters.as<float>().begin(), kCount, static_cast<float>(communicator.rank() + 1));
    std::vector<Rank> servers(static_cast<std::size_t>(setup.servers));
    std::iota(servers.begin(), servers.end(), setup.workers);
    communicator.broadcast(view(floats(parameters)), 0);
    mixer = make_mixer(communicator, parse_plan(setup.plan),
                       {.parameters = {view(floats(parameters))},
                        .choices = setup.choices,
                        .learning_rate = [] { return 0.5; },
                        .gradients = {view(floats(gradients))},
                        .servers = servers,
                        .rule = setup.rule});
  }
  static std::span<float> floats(Arena& arena) { return arena.as<float>().first(kCount); }

  // One step down the gradient `value`.
  void step(std::int64_t number, float value) {
    std::fill_n(gradients.as<float>().begin(), kCount, value);
    if (!mixer->takes_gradients()) {
      for (float& parameter : floats(parameters)) parameter -= 0.5F * value;
    }
    mixer->end_update(number);
  }

  Arena parameters;
  Arena gradients;
  std::unique_ptr<Mixer> mixer;
};

void run(const Setup& setup, const std::function<void(Member&, Communicator&)>& body) {
  std::vector<Rank> workers(static_cast<std::size_t>(setup.workers));
  std::iota(workers.begin(), workers.end(), 0);
  run_ranks(setup.workers + setup.servers, [&](Endpoint& endpoint) {
    if (endpoint.rank() >= setup.workers) {
      serve(endpoint, {.workers = workers,
                       .index = endpoint.rank() - setup.workers,
                       .servers = setup.servers,
                       .policy = parse_plan(setup.plan).policy()});
      return;
    }
    Communicator communicator(endpoint, Group::world(setup.workers));
    Member member(endpoint, communicator, setup);
    body(member, communicator);
    communicator.barrier();
    member.mixer.reset();
  });
}

TEST(ServerMixer, TellsOfTheTablesInWhichServersRememberSomething) {
  for (const auto& [rule, apply, tables] : std::vector<std::tuple<std::string, MixChoices::Apply, std::size_t>>{
           {"momentum:0.5", MixChoices::Apply::server, 1},
           {"sgd:0.5", MixChoices::Apply::server, 0},
           {"momentum:0.5", MixChoices::Apply::worker, 0}}) {
    const std::size_t expected = tables;
    run({.plan = "where=server:2", .rule = rule, .choices = {.apply = apply}}, [&](Member& member, Communicator&) {
      const std::vector<Table> found = member.mixer->tables();
      ASSERT_EQ(found.size(), expected);
      for (const Table& table : found) EXPECT_EQ(table.spec().elements(), kCount);
    });
  }
}

// Momentum of one job, whose parameters another begins with.
TEST(ServerMixer, GoesOnWithWhatOtherServersRemembered) {
  std::vector<float> straight, resumed;
  std::vector<TablePiece> pieces;
  const auto read = [](Member& member) {
    const auto floats = Member::floats(member.parameters);
    return std::vector(floats.begin(), floats.end());
  };
  run({.plan = "where=server:2", .rule = "momentum:0.5"}, [&](Member& member, Communicator& all) {
    for (int step = 0; step < 3; ++step) member.step(step, 0.1F);
    if (all.rank() == 0) {
      TableSnapshot snapshot = member.mixer->tables().front().snapshot();
      while (auto piece = snapshot.next()) pieces.push_back(std::move(*piece));
    }
    for (int step = 3; step < 6; ++step) member.step(step, 0.1F);
    if (all.rank() == 0) straight = read(member);
  });
  run({.plan = "where=server:3", .servers = 3, .rule = "momentum:0.5"}, [&](Member& member, Communicator& all) {
    if (all.rank() == 0) {
      for (const TablePiece& piece : pieces) member.mixer->tables().front().restore(piece).wait();
    }
    all.barrier();
    for (int step = 3; step < 6; ++step) member.step(step, 0.1F);
    if (all.rank() == 0) resumed = read(member);
  });
  EXPECT_EQ(resumed, straight);
}

TEST(ServerMixer, UnderBspAStepIsThatOfTheAverageGradientWhoeverAppliesIt) {
  for (const auto apply : {MixChoices::Apply::server, MixChoices::Apply::worker}) {
    run({.plan = "where=server:2", .choices = {.apply = apply}}, [&](Member& member, Communicator& all) {
      EXPECT_EQ(member.mixer->takes_gradients(), apply == MixChoices::Apply::server);
      for (int step = 0; step < 6; ++step) {
        member.step(step, static_cast<float>(all.rank() + 1));
        const float expected = 1.0F - 0.75F * static_cast<float>(step + 1);
        for (std::size_t i = 0; i < kCount; i += 777)
          ASSERT_FLOAT_EQ(member.parameters.as<float>()[i], expected) << step;
        EXPECT_TRUE(member.mixer->agreed());
      }
    });
  }
}

TEST(ServerMixer, AfterADrainAllWorkersHaveTheSameAndNoUpdateIsLost) {
  for (const char* when : {"ssp:0", "ssp:2", "essp:2", "async"}) {
    for (const auto apply : {MixChoices::Apply::server, MixChoices::Apply::worker}) {
      run({.plan = fmt::format("where=server:2 when={}", when), .workers = 3, .choices = {.apply = apply}},
          [&](Member& member, Communicator& all) {
            const int steps = 8;
            for (int step = 0; step < steps; ++step) member.step(step, 1);
            member.mixer->drain();
            const bool in_full =
                parse_plan(fmt::format("where=server:2 when={}", when)).policy().kind == Policy::Kind::async ||
                apply == MixChoices::Apply::server;
            const float expected = 1.0F - 0.5F * static_cast<float>(in_full ? all.size() * steps : steps);
            for (std::size_t i = 0; i < kCount; i += 777)
              ASSERT_NEAR(member.parameters.as<float>()[i], expected, 1e-4) << when;
            const auto statistics = member.mixer->statistics();
            EXPECT_EQ(statistics->reads.violations(), 0);
            EXPECT_EQ(statistics->reads.count(), steps);
          });
    }
  }
}

TEST(ServerMixer, PushesAndReadsMayHavePeriodsOfTheirOwn) {
  run({.plan = "where=server:1 when=async", .workers = 1, .servers = 1, .choices = {.push_every = 3, .fetch_every = 2}},
      [](Member& member, Communicator&) {
        for (int step = 0; step < 6; ++step) member.step(step, static_cast<float>(step));
        // Two pushes of the averages of (0, 1, 2) and (3, 4, 5).
        EXPECT_FLOAT_EQ(member.parameters.as<float>()[0], 1.0F - 0.5F * 1 - 0.5F * 4);
      });
}

TEST(ServerMixer, WhatServersCannotDoIsRefusedWithTheReason) {
  run_ranks(1, [](Endpoint& endpoint) {
    Communicator communicator(endpoint, Group::world(1));
    try {
      Member member(endpoint, communicator, {.plan = "where=server:1", .workers = 1, .servers = 0});
      ADD_FAILURE() << "there are no servers";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("give DataParallel the Job"), std::string::npos);
    }
  });
  EXPECT_THROW(check(parse_plan("where=server:1 when=ssp:1"), MixChoices{.fetch_every = 2}), Error);
  EXPECT_THROW(check(parse_plan("where=ring"), MixChoices{.apply = MixChoices::Apply::server}), Error);
  EXPECT_THROW(check(parse_plan("where=ring when=ssp:3")), Error);
}

}  // namespace
}  // namespace paceline
