// Plans whose parameters meet, through `paceline train`: that they learn, end and go on as others do.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

using nlohmann::json;

struct Way {
  const char* name;
  Words words;
  double accuracy;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Mixing : public testing::TestWithParam<Way> {};

TEST_P(Mixing, ReachesItsTarget) {
  const TrainRun run;
  const json last = last_line(run, GetParam().words);
  EXPECT_GT(last["test_accuracy"], GetParam().accuracy);
  EXPECT_GT(last["samples_per_s"], 0);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, Mixing,
    testing::Values(
        Way{"Local", {"--when", "local:8", "--epochs", "8"}, 0.85},
        Way{"LocalOverARing", {"--when", "local:4", "--where", "ring", "--workers", "3", "--epochs", "8"}, 0.8},
        Way{"PostLocal", {"--when", "local:8", "--post-local", "3", "--epochs", "8"}, 0.85},
        Way{"MomentumOfAverages", {"--when", "local:6", "--slow-momentum", "0.3", "--epochs", "8"}, 0.85},
        Way{"OneShot", {"--when", "local:end", "--epochs", "8"}, 0.8},
        Way{"SomeOfTheWorkers",
            {"--when", "local:4", "--participate", "50%", "--workers", "4", "--batch", "16", "--epochs", "12"},
            0.8},
        Way{"Gossip", {"--where", "gossip", "--workers", "4", "--batch", "32", "--epochs", "8"}, 0.85},
        Way{"GossipOnARing", {"--where", "gossip:ring", "--workers", "3", "--epochs", "8"}, 0.8},
        Way{"AsynchronousGossip", {"--where", "gossip", "--when", "async", "--epochs", "8"}, 0.85},
        Way{"Hogwild", {"--where", "hogwild", "--optimizer", "sgd", "--lr", "0.05", "--epochs", "10"}, 0.8},
        Way{"HogwildWithALock",
            {"--where", "hogwild:locked", "--optimizer", "sgd", "--lr", "0.05", "--epochs", "10"},
            0.8},
        Way{"ServersInStep", {"--where", "server:2", "--epochs", "8"}, 0.85},
        Way{"ServersWithAnOptimizerOfTheWorkers",
            {"--where", "server:1", "--apply", "worker", "--optimizer", "adamw", "--lr", "0.005", "--epochs", "8"},
            0.85},
        Way{"StaleByABound", {"--where", "server:2", "--when", "ssp:3", "--workers", "3", "--epochs", "8"}, 0.8},
        Way{"StaleByABoundWithNewsSentOn", {"--where", "server:2", "--when", "essp:3", "--epochs", "8"}, 0.8},
        Way{"Asynchronous",
            {"--where", "server:1", "--when", "async", "--optimizer", "sgd", "--lr", "0.05", "--epochs", "8"},
            0.8},
        Way{"AsynchronousByStaleness",
            {"--where", "server:2", "--when", "async", "--divide-by-staleness", "--optimizer", "sgd", "--lr", "0.05",
             "--epochs", "8"},
            0.8},
        Way{"AsynchronousWithDelayCompensation",
            {"--where", "server:2", "--when", "async", "--compensate-delay", "0.04", "--optimizer", "sgd", "--lr",
             "0.05", "--epochs", "8"},
            0.8},
        Way{"Softsync",
            {"--where", "server:1", "--when", "softsync:2", "--optimizer", "adam", "--lr", "0.005", "--epochs", "8"},
            0.8},
        Way{"Downpour",
            {"--where", "server:1", "--when", "async", "--push-every", "2", "--fetch-every", "3", "--optimizer",
             "adagrad", "--lr", "0.02", "--epochs", "10"},
            0.75},
        Way{"DifferentDataForEachWorker",
            {"--when", "local:2", "--shard", "dirichlet:0.5", "--batch", "16", "--epochs", "12"},
            0.7},
        Way{"WorkersOfFewClasses", {"--shard", "by-label", "--epochs", "8"}, 0.8}),
    [](const auto& way) { return way.param.name; });

TEST(TrainMixing, StalenessIsToldAndNoReadIsPastTheBound) {
  for (const char* when : {"bsp", "ssp:2", "essp:2", "async", "softsync:2", "auto"}) {
    const TrainRun run;
    const auto lines = json_lines(
        run.train(small_run({"--where", "server:2", "--when", when, "--workers", "3", "--epochs", "2"})).output);
    const json epoch = lines[lines.size() - 2];
    ASSERT_TRUE(epoch.contains("staleness")) << when;
    const json staleness = epoch["staleness"];
    EXPECT_EQ(staleness["violations"], 0) << when;
    EXPECT_GE(staleness["mean"], 0) << when;
    EXPECT_TRUE(staleness.contains("variance")) << when;
    const std::map<std::string, int> most = {{"bsp", 0}, {"ssp:2", 2}, {"essp:2", 2}};
    if (const auto bound = most.find(when); bound != most.end()) {
      EXPECT_LE(staleness["max"], bound->second) << when;
    }
  }
}

// With a worker that takes three times as long in each step, another one each time, rank 0 waits from the start.
TEST(TrainMixing, AutoRaisesItsBoundWhereWorkersWaitAndSaysWhy) {
  const TrainRun run;
  const Ended ended = run.train(small_run({"--where", "server:1", "--when", "auto", "--workers", "3", "--handicap",
                                           "random:8", "--batch", "16", "--epochs", "4"}));
  EXPECT_NE(ended.errors.find("when=auto: from ssp:0 to ssp:1 at step "), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("steps for others"), std::string::npos) << ended.errors;
}

TEST(TrainMixing, TheoryIsSetBesideWhatWasMeasured) {
  const TrainRun run;
  const Ended ended = run.train({"--data", "digits", "--model", "softmax", "--optimizer", "sgd", "--where", "server:2",
                                 "--when", "ssp:3", "--workers", "3", "--epochs", "10", "--theory", "10", "--json"});
  const json theory = json_lines(ended.output).back()["theory"];
  EXPECT_LE(theory["steepness"], 1e-10);
  EXPECT_GT(theory["regret"], 0);
  EXPECT_LT(theory["regret"], theory["regret_bound"]);
  EXPECT_LT(theory["best_loss"], 2.3);
  EXPECT_TRUE(theory["inside"]);
  EXPECT_NE(ended.errors.find("(Ho et al. 2013)"), std::string::npos) << ended.errors;
}

TEST(TrainMixing, TheResolvedPlanIsTold) {
  const TrainRun run;
  run.train(small_run({"--where", "hogwild", "--steps", "2"}));
  EXPECT_EQ(json::parse(bytes_of(run.path("config.json")))["plan"], "split=data when=async where=hogwild what=dense");
}

TEST(TrainMixing, EightLocalStepsSendAboutAnEighth) {
  const auto bytes = [](const Words& words) {
    const TrainRun run;
    Words all = {"--model", "mlp:256", "--epochs", "1", "--batch", "23"};  // 33 steps
    all.insert(all.end(), words.begin(), words.end());
    return last_line(run, all)["bytes_sent"].get<double>();
  };
  EXPECT_NEAR(bytes({"--when", "local:8"}) / bytes({"--when", "bsp"}), 5.0 / 33, 0.03);
}

TEST(TrainMixing, AWorkerWithAHandicapComputesLonger) {
  const TrainRun run;
  const auto lines = json_lines(
      run.train(small_run({"--where", "hogwild", "--handicap", "fixed:1:20", "--epochs", "1", "--batch", "8"})).output);
  const json& workers = lines.front()["workers"];
  EXPECT_GT(workers[1]["compute"], 4 * workers[0]["compute"].get<double>());
}

class EndedMixing : public testing::TestWithParam<Way> {};

// A signal reaches all workers though they do not meet in every step, and what they leave can be gone on from.
TEST_P(EndedMixing, FinishesSavesAndGoesOn) {
  const TrainRun run;
  Words words = small_run(GetParam().words);
  Command command = run.start(words);
  command.read_until("\"epoch\":1,");
  command.signal(SIGTERM);
  const Ended ended = command.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_EQ(ended.errors, "");
  run.expect_nothing_left();
  const json last = json_lines(ended.output).back();
  EXPECT_EQ(last["stop_reason"], "interrupted by SIGTERM");
  const int step = last["step"];
  EXPECT_TRUE(std::filesystem::exists(run.path(fmt::format("checkpoint/step-{:09}.ckpt", step)))) << step;
  words.insert(words.end(), {"--resume", "--steps", std::to_string(step + 30)});
  EXPECT_EQ(json_lines(run.train(words).output).back()["step"], step + 30);
}

INSTANTIATE_TEST_SUITE_P(
    Paces, EndedMixing,
    testing::Values(Way{"Together", {"--when", "local:5", "--epochs", "1000000", "--checkpoint-every", "7"}, 0},
                    Way{"Neighbours", {"--where", "gossip", "--epochs", "1000000"}, 0},
                    Way{"Async", {"--where", "gossip", "--when", "async", "--epochs", "1000000"}, 0},
                    Way{"Hogwild", {"--where", "hogwild", "--epochs", "1000000", "--checkpoint-every", "7"}, 0},
                    Way{"OneShot", {"--when", "local:end", "--epochs", "1000000", "--checkpoint-every", "50"}, 0}),
    [](const auto& way) { return way.param.name; });

// All that a resumed run needs is in the checkpoint, which is made where both runs meet.
TEST(TrainMixing, AResumedRunIsTheOneThatDidNotStop) {
  for (const Words& plan : {Words{"--when", "local:4"}, Words{"--where", "gossip"}}) {
    const TrainRun straight, stopped;
    Words all = plan;
    all.insert(all.end(), {"--epochs", "4", "--checkpoint-every", "6"});
    straight.train(small_run(all));
    Words part = all;
    part.insert(part.end(), {"--steps", "18"});
    stopped.train(small_run(part));
    all.emplace_back("--resume");
    stopped.train(small_run(all));
    EXPECT_TRUE(bytes_of(straight.path("model.safetensors")) == bytes_of(stopped.path("model.safetensors"))) << plan[1];
  }
}

}  // namespace
}  // namespace paceline
