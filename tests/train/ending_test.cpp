// Runs that are ended from outside.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

// The promise is 2 s. A machine that builds at the same time may add one.
constexpr auto kSoon = std::chrono::seconds(3);

Words endless() { return small_run({"--epochs", "1000000"}); }

Command start_and_wait_for_an_epoch(const TrainRun& run) {
  Command command = run.start(endless());
  command.read_until("\"epoch\":1,");
  return command;
}

// No signal waits to be read by the process.
bool took_its_signals(pid_t process) {
  const std::string status = bytes_of(fmt::format("/proc/{}/status", process));
  return contains(status, "ShdPnd:\t0000000000000000");
}

struct Case {
  const char* name;
  int number;
};
void PrintTo(const Case& signal, std::ostream* out) { *out << signal.name; }

class TrainSignal : public testing::TestWithParam<Case> {};

TEST_P(TrainSignal, FinishesTheStepSavesAndReports) {
  const TrainRun run;
  Command command = start_and_wait_for_an_epoch(run);
  command.signal(GetParam().number);
  const Ended ended = command.wait();
  EXPECT_EQ(ended.exit_code, 128 + GetParam().number);
  EXPECT_EQ(ended.errors, "");
  run.expect_nothing_left();
  const nlohmann::json last = json_lines(ended.output).back();
  EXPECT_EQ(last["final"], true);
  EXPECT_EQ(last["stop_reason"], std::string("interrupted by ") + GetParam().name);
  const int step = last["step"];
  EXPECT_TRUE(std::filesystem::exists(run.path(fmt::format("checkpoint/step-{:09}.ckpt", step)))) << step;
  for (const char* file : {"report.html", "trace.json", "model.pt", "model.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(run.path(file))) << file;
}

INSTANTIATE_TEST_SUITE_P(All, TrainSignal,
                         testing::Values(Case{"SIGINT", SIGINT}, Case{"SIGTERM", SIGTERM}, Case{"SIGUSR1", SIGUSR1}),
                         [](const auto& test) { return test.param.name; });

// Workers that are stopped cannot finish their step: only the second interrupt can have ended them.
TEST(TrainEnding, TheSecondInterruptEndsAtOnce) {
  const TrainRun run;
  Command command = start_and_wait_for_an_epoch(run);
  const pid_t workers[] = {run.worker(0), run.worker(1)};
  for (const pid_t worker : workers) kill(worker, SIGSTOP);
  for (const pid_t worker : workers) EXPECT_TRUE(eventually([&] { return state_of(worker) == 'T'; }));
  command.signal(SIGINT);
  EXPECT_TRUE(eventually([&] { return took_its_signals(command.pid()); }));
  for (const pid_t worker : workers) EXPECT_EQ(state_of(worker), 'T');
  const auto before = std::chrono::steady_clock::now();
  command.signal(SIGINT);
  const Ended ended = command.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - before, kSoon);
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  EXPECT_FALSE(contains(ended.output, "final"));
  run.expect_nothing_left();
}

TEST(TrainEnding, TwoInterruptsRightAfterEachOtherLeaveNothingRunning) {
  const TrainRun run;
  Command command = start_and_wait_for_an_epoch(run);
  command.signal(SIGINT);
  command.signal(SIGINT);
  EXPECT_EQ(command.wait().exit_code, 128 + SIGINT);
  run.expect_nothing_left();
}

class KilledWorker : public testing::TestWithParam<int> {};

TEST_P(KilledWorker, EndsTheJobSoonWithAVerdict) {
  const TrainRun run;
  Command command = start_and_wait_for_an_epoch(run);
  const pid_t victim = run.worker(GetParam());
  ASSERT_GT(victim, 0);
  const auto before = std::chrono::steady_clock::now();
  kill(victim, SIGKILL);
  const Ended ended = command.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - before, kSoon);
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(contains(ended.errors, fmt::format("rank {} (pid {}) was killed by signal 9", GetParam(), victim)))
      << ended.errors;
  EXPECT_LE(lines_of(ended.errors).size(), 2u) << ended.errors;  // the launcher's verdict, and a survivor's
  run.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Each, KilledWorker, testing::Values(0, 1));

TEST(TrainEnding, AKilledRunGoesOnFromItsLastCheckpoint) {
  const TrainRun run;
  Command command = start_and_wait_for_an_epoch(run);
  command.read_until("\"epoch\":2,");  // told before it is saved: the first one's checkpoint is there
  kill(run.worker(0), SIGKILL);
  const int epochs = static_cast<int>(results_of(command.wait().output).size());
  const Ended ended = run.train(small_run({"--epochs", std::to_string(epochs + 1), "--resume"}));
  const auto told = results_of(bytes_of(run.path("metrics.jsonl")));
  ASSERT_EQ(told.size(), static_cast<std::size_t>(epochs + 1));
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i]["epoch"], i + 1);
}

}  // namespace
}  // namespace paceline
