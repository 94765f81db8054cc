// `paceline train` under mpirun and srun: it joins instead of starting workers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "paceline/launch/cores.hpp"
#include "tests/schedulers/program.hpp"
#include "tests/schedulers/slurm_cluster.hpp"
#include "tests/schedulers/two_hosts.hpp"
#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Words train_words(const TrainRun& run, const Words& more) {
  return joined({PACELINE_PROGRAM, "train", "--json", "--out", run.folder(), "--data", "digits"}, more);
}

const Words kRun = {"--model", "mlp:16", "--threads", "1", "--epochs", "3"};

// Of two workers that paceline has started itself.
void expect_same_bits(const TrainRun& run, const Ended& ended) {
  EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
  const TrainRun reference;
  const Ended expected = reference.train(joined({"--data", "digits", "--workers", "2"}, kRun));
  EXPECT_TRUE(bytes_of(run.path("model.safetensors")) == bytes_of(reference.path("model.safetensors")));
  EXPECT_EQ(results_of(ended.output), results_of(expected.output));
  EXPECT_EQ(json::parse(bytes_of(run.path("config.json"))), [&] {
    json config = json::parse(bytes_of(reference.path("config.json")));
    config["out"] = run.folder();
    return config;
  }());
}

// What paceline says, among what the launcher says.
Words own_lines(const std::string& text) {
  Words lines = lines_of(text);
  std::erase_if(lines, [](const std::string& line) { return !contains(line, "paceline: "); });
  return lines;
}

class TrainMpirun : public testing::Test {
 protected:
  void SetUp() override {
    forgive_leaks_of_pmix();
    if (find_program("mpirun.openmpi").empty()) GTEST_SKIP() << "Open MPI's mpirun is not installed (openmpi-bin)";
  }

  static Words mpirun(const Words& options) {
    return joined({find_program("mpirun.openmpi"), "--allow-run-as-root", "--oversubscribe"}, options);
  }
  static Words mpirun_here(const Words& options) {
    return mpirun(joined({"--mca", "oob_tcp_if_include", "lo"}, options));
  }

  static Command start(const TrainRun& run, const std::string& workers, const Words& more) {
    return run.start_marked(joined(mpirun_here({"-np", workers}), train_words(run, more)));
  }

  // One sentence, however many processes found it out.
  static void expect_refused(const TrainRun& run, const Words& more, const std::string& says) {
    const Ended ended = start(run, "3", more).wait();
    EXPECT_EQ(exit_code_of_mpirun(ended), 2) << ended.errors;
    EXPECT_EQ(ended.output, "");
    const Words lines = own_lines(ended.errors);
    ASSERT_EQ(lines.size(), 1u) << ended.errors;
    EXPECT_TRUE(lines[0].starts_with("paceline: ") && contains(lines[0], says)) << lines[0];
    run.expect_nothing_left();
  }
};

TEST_F(TrainMpirun, GivesTheBitsOfWorkersThatPacelineStarts) {
  const TrainRun run;
  expect_same_bits(run, start(run, "2", kRun).wait());
  run.expect_nothing_left();
}

// To a file it writes lines, though mpirun gives its processes terminals.
TEST_F(TrainMpirun, DrawsNothing) {
  const TrainRun run;
  const Ended ended =
      run.start_marked(joined(mpirun_here({"-np", "2"}), {PACELINE_PROGRAM, "train", "--out", run.folder(), "--data",
                                                          "digits", "--model", "softmax", "--epochs", "2"}))
          .wait();
  EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
  EXPECT_EQ(ended.output.find('\x1b'), std::string::npos) << ended.output;
  const Words lines = lines_of(ended.output);
  ASSERT_EQ(lines.size(), 5u) << ended.output;
  EXPECT_TRUE(lines[0].starts_with("softmax (650 parameters)")) << lines[0];
  EXPECT_TRUE(lines[2].starts_with("epoch 2/2")) << lines[2];
}

TEST_F(TrainMpirun, OnTwoHostsToo) {
  const TwoHosts hosts;
  if (!hosts.ready()) GTEST_SKIP() << "two hosts need root and network namespaces";
  const TrainRun run;
  const std::string places = fmt::format("{}:1,{}:1", hosts.kAddresses[0], hosts.kAddresses[1]);
  const Words words = mpirun({"--mca", "plm", "rsh", "--mca", "plm_rsh_agent", hosts.login(), "--mca",
                              "oob_tcp_if_include", TwoHosts::kNetwork, "--host", places, "-np", "2"});
  const Ended ended = Command(hosts.on_first(joined(words, train_words(run, kRun)))).wait();
  expect_same_bits(run, ended);
  const json workers = json_lines(ended.output).front()["workers"];
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_NE(workers[0]["host"], workers[1]["host"]) << workers;
}

TEST_F(TrainMpirun, WorkersShareTheCoresThatTheyMayUse) {
  const int cores = default_threads(allowed_cores().size(), core_quota(), 1);
  for (const auto& [workers, bind, threads] :
       {std::tuple{"1", "none", cores}, std::tuple{"2", "none", std::max(1, cores / 2)}, std::tuple{"1", "core", 1}}) {
    const TrainRun run;
    const Words words = joined(mpirun_here({"-np", workers, "--bind-to", bind}),
                               train_words(run, {"--model", "softmax", "--steps", "2"}));
    const Ended ended = run.start_marked(words).wait();
    EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
    EXPECT_EQ(json::parse(bytes_of(run.path("config.json")))["threads"], threads) << workers << " bound to " << bind;
  }
}

TEST_F(TrainMpirun, WrongWordsAreOneSentence) {
  const TrainRun run;
  expect_refused(run, {"--model", "resnet"}, "resnet");
  expect_refused(run, {"--until", "speed=3"}, "speed=3");
  expect_refused(run, {"--ports", "7"}, "--ports");
}

TEST_F(TrainMpirun, WhoStartsTheWorkersSaysHowMany) {
  const TrainRun run;
  expect_refused(run, {"--workers", "2"}, "--workers is for workers that paceline train starts");
  expect_refused(run, {"--hosts", "a:2"}, "--hosts is for workers that paceline train starts");
}

TEST_F(TrainMpirun, WhatRankZeroFindsIsOneSentence) {
  const TrainRun run;
  expect_refused(run, {"--batch", "2000"}, "1497");
  expect_refused(run, {"--resume"}, "no checkpoint");
  const Ended ended = start(run, "2", {"--model", "softmax", "--steps", "1"}).wait();
  EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
  expect_refused(run, {"--model", "softmax"}, "holds a run already");
}

// mpirun passes SIGUSR1 on; SIGINT and SIGTERM it takes for the end.
TEST_F(TrainMpirun, ASignalEndsItInGoodOrderAndItGoesOn) {
  const TrainRun straight, stopped;
  const Words words = {"--model", "mlp:16", "--threads", "1", "--epochs", "4", "--batch", "2"};
  straight.train(joined({"--data", "digits", "--workers", "2"}, words));
  Command command = start(stopped, "2", words);
  command.read_until("\"epoch\":1,");
  command.signal(SIGUSR1);
  const Ended ended = command.wait();
  EXPECT_EQ(exit_code_of_mpirun(ended), 128 + SIGUSR1) << ended.errors;
  const json last = json_lines(ended.output).back();
  EXPECT_EQ(last["stop_reason"], "interrupted by SIGUSR1");
  EXPECT_LT(last["step"], 1500);
  EXPECT_EQ(own_lines(ended.errors), Words());
  stopped.expect_nothing_left();
  EXPECT_EQ(exit_code_of_mpirun(start(stopped, "2", joined(words, {"--resume"})).wait()), 0);
  EXPECT_TRUE(bytes_of(straight.path("model.safetensors")) == bytes_of(stopped.path("model.safetensors")));
}

TEST_F(TrainMpirun, AKilledWorkerEndsTheRun) {
  const TrainRun run;
  Command command = start(run, "2", {"--model", "softmax", "--epochs", "1000000"});
  command.read_until("\"epoch\":1,");
  pid_t victim = -1;
  for (const pid_t process : run.processes()) {
    std::error_code ignored;
    if (fs::read_symlink(fmt::format("/proc/{}/exe", process), ignored).filename() == "paceline-train")
      victim = process;
  }
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  EXPECT_NE(command.wait().exit_code, 0);
  run.expect_nothing_left();
}

// ---- Slurm

class TrainSlurm : public SlurmTest {
 protected:
  TrainSlurm() : SlurmTest(2) {}
};

TEST_F(TrainSlurm, WithPmixItGivesTheSameBits) {
  if (!has_pmix()) GTEST_SKIP() << "this Slurm was built without PMIx";
  const TrainRun run;
  expect_same_bits(run, srun(joined({"--mpi=pmix", "-n", "2"}, train_words(run, kRun))));
}

TEST_F(TrainSlurm, WithoutPmixItSaysWhatToDoAndTrainsNothing) {
  const TrainRun run;
  const Ended ended = srun(joined({"--mpi=none", "-n", "2"}, train_words(run, kRun)));
  EXPECT_EQ(ended.exit_code, 2);
  const Words lines = own_lines(ended.errors);
  ASSERT_EQ(lines.size(), 2u) << ended.errors;  // each task for itself: they cannot find each other
  for (const std::string& line : lines) EXPECT_TRUE(contains(line, "srun --mpi=pmix")) << line;
  EXPECT_FALSE(fs::exists(run.folder()));
}

}  // namespace
}  // namespace paceline
