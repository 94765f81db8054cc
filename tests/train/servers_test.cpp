// `paceline train --servers-on`: servers in processes of their own, on this host.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

using nlohmann::json;

// The promise is 2 s. A machine that builds at the same time may add some.
constexpr auto kSoon = std::chrono::seconds(4);

Words on_servers(const Words& more) {
  Words words = {"--where", "server:2", "--servers-on", "localhost"};
  words.insert(words.end(), more.begin(), more.end());
  return small_run(words);
}

Command start_and_wait_for_an_epoch(const TrainRun& run, const Words& more = {}) {
  Words words = {"--epochs", "1000000"};
  words.insert(words.end(), more.begin(), more.end());
  Command command = run.start(on_servers(words));
  command.read_until("\"epoch\":1,");
  return command;
}

TEST(TrainServers, InProcessesGiveTheBitsOfThreads) {
  const TrainRun threads, processes;
  const Ended one = threads.train(small_run({"--where", "server:2", "--epochs", "3"}));
  const Ended two = processes.train(on_servers({"--epochs", "3"}));
  EXPECT_EQ(two.errors, "");
  EXPECT_TRUE(bytes_of(threads.path("model.safetensors")) == bytes_of(processes.path("model.safetensors")));
  EXPECT_EQ(results_of(one.output), results_of(two.output));
  EXPECT_EQ(json::parse(bytes_of(threads.path("config.json")))["servers_on"], "");
  EXPECT_EQ(json::parse(bytes_of(processes.path("config.json")))["servers_on"], "localhost");
  EXPECT_TRUE(contains(bytes_of(processes.path("report.html")), "servers on localhost"));
  processes.expect_nothing_left();
}

TEST(TrainServers, AreToldOfInTheFirstLine) {
  const TrainRun run;
  const Ended ended =
      run.start_marked({PACELINE_PROGRAM, "train", "--out", run.folder(), "--data", "digits", "--model", "softmax",
                        "--workers", "2", "--steps", "3", "--where", "server:2", "--servers-on", "localhost"})
          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(contains(lines_of(ended.output).at(0), "2 server processes on localhost")) << ended.output;
}

TEST(TrainServers, ServeOneWorkerAndMorePoliciesThanOne) {
  for (const Words& words :
       {Words{"--workers", "1", "--epochs", "4"}, Words{"--when", "ssp:3", "--workers", "3", "--epochs", "8"},
        Words{"--when", "async", "--optimizer", "sgd", "--lr", "0.05", "--epochs", "8"}}) {
    const TrainRun run;
    EXPECT_GT(json_lines(run.train(on_servers(words)).output).back()["test_accuracy"], 0.8) << words[1];
    run.expect_nothing_left();
  }
}

TEST(TrainServers, AServerThatIsKilledEndsTheRunAndIsNamed) {
  for (const Words& when : {Words{"--when", "bsp"}, Words{"--when", "async", "--optimizer", "sgd"}}) {
    const TrainRun run;
    Command command = start_and_wait_for_an_epoch(run, when);
    const pid_t victim = run.worker(3);
    const auto before = std::chrono::steady_clock::now();
    kill(victim, SIGKILL);
    const Ended ended = command.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - before, kSoon);
    EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
    EXPECT_TRUE(
        contains(ended.errors, fmt::format("paceline: server 1, rank 3 (pid {}) was killed by signal 9", victim)))
        << ended.errors;
    // A worker that is not told by the other first says it too.
    EXPECT_TRUE(contains(ended.errors, "rank 3 (host ")) << ended.errors;
    EXPECT_TRUE(contains(ended.errors, fmt::format("pid {}) has died", victim))) << ended.errors;
    run.expect_nothing_left();
  }
}

TEST(TrainServers, AWorkerThatIsKilledEndsTheRunWithItsServers) {
  for (const Words& when : {Words{"--when", "bsp"}, Words{"--when", "async", "--optimizer", "sgd"}}) {
    const TrainRun run;
    Command command = start_and_wait_for_an_epoch(run, when);
    const pid_t victim = run.worker(1);
    const auto before = std::chrono::steady_clock::now();
    kill(victim, SIGKILL);
    const Ended ended = command.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - before, kSoon);
    EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
    EXPECT_TRUE(contains(ended.errors, fmt::format("paceline: rank 1 (pid {}) was killed by signal 9", victim)))
        << ended.errors;
    run.expect_nothing_left();
  }
}

TEST(TrainServers, SignalsEndTheRunInGoodOrder) {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    const TrainRun run;
    Command command = start_and_wait_for_an_epoch(run);
    command.signal(number);
    const Ended ended = command.wait();
    EXPECT_EQ(ended.exit_code, 128 + number);
    EXPECT_EQ(ended.errors, "");
    EXPECT_EQ(json_lines(ended.output).back()["final"], true);
    run.expect_nothing_left();
  }
}

TEST(TrainServers, NothingOutlivesALauncherThatIsKilled) {
  const TrainRun run;
  Command command = start_and_wait_for_an_epoch(run);
  command.signal(SIGKILL);
  command.wait();
  run.expect_nothing_left();
}

TEST(TrainServers, GoOnFromACheckpointOfARunWithThreads) {
  const TrainRun run;
  run.train(small_run({"--where", "server:1", "--steps", "12"}));
  const Words words = {"--where", "server:1", "--servers-on", "localhost", "--resume", "--steps", "24"};
  EXPECT_EQ(json_lines(run.train(small_run(words)).output).back()["step"], 24);
}

// ---- what servers remember

void expect_same_model(const TrainRun& one, const TrainRun& other, const std::string& what) {
  EXPECT_TRUE(bytes_of(one.path("model.safetensors")) == bytes_of(other.path("model.safetensors"))) << what;
  EXPECT_EQ(results_of(bytes_of(one.path("metrics.jsonl"))), results_of(bytes_of(other.path("metrics.jsonl")))) << what;
}

// Their momentum, means and step counts are in the checkpoint: a run that stops in the middle of an epoch and goes on,
// on another number of servers too, is the one that did not stop.
TEST(TrainServers, RememberAcrossAResumeWhateverTheirNumber) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"momentum", "server:3"}, {"adam", "server:1"}};
  for (const auto& [optimizer, where] : cases) {
    const TrainRun straight, stopped;
    straight.train(small_run({"--where", "server:2", "--optimizer", optimizer, "--epochs", "3"}));
    stopped.train(small_run({"--where", "server:2", "--optimizer", optimizer, "--epochs", "3", "--steps", "19"}));
    EXPECT_TRUE(std::filesystem::exists(stopped.path("checkpoint/step-000000019.rows")));
    const Ended rest =
        stopped.train(small_run({"--where", where, "--optimizer", optimizer, "--epochs", "3", "--resume"}));
    EXPECT_EQ(rest.errors, "");
    expect_same_model(straight, stopped, optimizer + " on " + where);
  }
}

TEST(TrainServers, RememberAcrossAResumeInProcessesOfTheirOwn) {
  const TrainRun straight, stopped;
  straight.train(small_run({"--where", "server:2", "--optimizer", "adam", "--epochs", "2"}));
  stopped.train(on_servers({"--optimizer", "adam", "--epochs", "2", "--steps", "17"}));
  stopped.train(on_servers({"--optimizer", "adam", "--epochs", "2", "--resume"}));
  expect_same_model(straight, stopped, "server processes");
}

TEST(TrainServers, CheckpointsThatAreSavedWhileTrainingGoesOnChangeNothing) {
  const TrainRun straight, saving;
  straight.train(small_run({"--where", "server:2", "--epochs", "2"}));
  saving.train(small_run({"--where", "server:2", "--epochs", "2", "--checkpoint-every", "5", "--keep", "2"}));
  expect_same_model(straight, saving, "--checkpoint-every 5");
  int files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(saving.path("checkpoint"))) ++files;
  EXPECT_EQ(files, 4);  // two checkpoints, each with its rows
}

TEST(TrainServers, SlowUnderEveryPlanThatRemembersARunGoesOn) {
  for (const Words& plan : {Words{"--when", "async"}, Words{"--when", "ssp:2", "--apply", "server"},
                            Words{"--when", "essp:1"}, Words{"--when", "softsync:2"}}) {
    const TrainRun run;
    const auto words = [&](const Words& more) {
      Words all = plan;
      all.insert(all.end(), more.begin(), more.end());
      return with_defaults(all, {{"--where", "server:2"}, {"--lr", "0.02"}, {"--epochs", "12"}});
    };
    run.train(small_run(words({"--steps", "30"})));
    const Ended rest = run.train(small_run(words({"--resume", "--where", "server:3"})));
    EXPECT_EQ(rest.errors, "") << plan[1];
    EXPECT_GT(json_lines(rest.output).back()["test_accuracy"], 0.8) << plan[1];
    run.expect_nothing_left();
  }
}

// A run without servers has nothing for them: that is said, and it goes on.
TEST(TrainServers, ThatWereNotThereBeforeBeginToRemember) {
  const TrainRun run;
  run.train(small_run({"--where", "allreduce", "--steps", "12"}));
  const Ended rest = run.start(small_run({"--where", "server:2", "--steps", "24", "--resume"})).wait();
  EXPECT_EQ(rest.exit_code, 0);
  EXPECT_TRUE(contains(rest.errors, "it begins anew")) << rest.errors;
}

TEST(TrainServers, ACheckpointWhoseRowsAreDamagedIsNamedAndTheOneBeforeIsUsed) {
  const TrainRun straight, run;
  straight.train(small_run({"--where", "server:2", "--epochs", "3"}));
  run.train(small_run({"--where", "server:2", "--epochs", "2"}));
  const std::string newest = run.path("checkpoint/step-000000024.rows");
  std::string bytes = bytes_of(newest);
  bytes.at(bytes.size() / 2) ^= 1;
  std::ofstream(newest, std::ios::binary) << bytes;
  const Ended ended = run.train(small_run({"--where", "server:2", "--epochs", "3", "--resume"}));
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, newest)) << ended.errors;
  expect_same_model(straight, run, "from the one before");
}

// ---- what cannot be done

struct Refusal {
  const char* name;
  Words words;
  const char* says;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class RefusedServers : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedServers, WithOneSentence) {
  const TrainRun run;
  const Ended ended = run.start(small_run(GetParam().words)).wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, GetParam().says)) << ended.errors;
  EXPECT_FALSE(std::filesystem::exists(run.path("config.json")));
  run.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(
    Words, RefusedServers,
    testing::Values(Refusal{"WithoutServers", {"--servers-on", "localhost"}, "--where server:N"},
                    Refusal{"EmptyList", {"--where", "server:2", "--servers-on", ""}, "name of the host is missing"},
                    Refusal{"EmptyEntry", {"--where", "server:2", "--servers-on", "a,,b"}, "entry '' of --servers-on"},
                    Refusal{"Twice", {"--where", "server:2", "--servers-on", "a,a"}, "named twice"},
                    Refusal{"Malformed", {"--where", "server:2", "--servers-on", "-a"}, "not the name of a host"},
                    Refusal{"Counted", {"--where", "server:2", "--servers-on", "a:2"}, "--where server:N"},
                    Refusal{"Unknown", {"--where", "server:2", "--servers-on", "nowhere.invalid"}, "nowhere.invalid"}),
    [](const auto& refusal) { return refusal.param.name; });

TEST(RefusedServers, OfWorkersThatOthersHaveStarted) {
  const TrainRun run;
  const Ended ended =
      run.start_marked({PACELINE_PROGRAM, "run", "-n", "2", "--no-prefix", PACELINE_PROGRAM, "train", "--out",
                        run.folder(), "--data", "digits", "--where", "server:2", "--servers-on", "localhost"})
          .wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_TRUE(contains(ended.errors, "paceline: --servers-on is for jobs that paceline train starts")) << ended.errors;
  run.expect_nothing_left();
}

}  // namespace
}  // namespace paceline
