#include "paceline/launch/worker_environment.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline {
namespace {

const WorkerVariables kWorker = {
    .rank = 1, .size = 4, .store = "127.0.0.1:1", .job = "j", .secret = "s", .lifeline = 5, .threads = 2};

TEST(WorkerEnvironment, MakesAWorkerAndKeepsTheRest) {
  const auto list = worker_environment({"HOME=/root", "PACELINE_RANK=9", "PACELINE_RANKING=x"}, kWorker);
  EXPECT_EQ(variable(list, "HOME"), "/root");
  EXPECT_EQ(variable(list, "PACELINE_RANKING"), "x");
  EXPECT_EQ(variable(list, "PACELINE_RANK"), "1");
  EXPECT_EQ(variable(list, "PACELINE_SIZE"), "4");
  EXPECT_EQ(variable(list, "PACELINE_STORE"), "127.0.0.1:1");
  EXPECT_EQ(variable(list, "PACELINE_SECRET"), "s");
  EXPECT_EQ(variable(list, "PACELINE_LIFELINE"), "5");
  EXPECT_EQ(std::count(list.begin(), list.end(), "PACELINE_RANK=9"), 0);
}

TEST(WorkerEnvironment, EveryThreadLibraryIsToldUnlessTheUserDid) {
  const auto list = worker_environment({"OMP_NUM_THREADS=7"}, kWorker);
  EXPECT_EQ(variable(list, "OMP_NUM_THREADS"), "7");
  EXPECT_EQ(variable(list, "OPENBLAS_NUM_THREADS"), "2");
  EXPECT_EQ(variable(list, "MKL_NUM_THREADS"), "2");
}

TEST(WorkerEnvironment, ThreadsGivenOnTheCommandLineWin) {
  WorkerVariables worker = kWorker;
  worker.override_threads = true;
  EXPECT_EQ(variable(worker_environment({"OMP_NUM_THREADS=7"}, worker), "OMP_NUM_THREADS"), "2");
}

TEST(VariablesToPass, AreOursAndThoseOfTheLibrariesAndWhatWasNamed) {
  const EnvironmentList own = {"PATH=/bin",         "HOME=/root",      "PACELINE_PORTS=7000-7100", "UCX_TLS=tcp",
                               "OMP_NUM_THREADS=2", "PACELINE_RANK=3", "PACELINE_SECRET=s",        "PACELINE_JOB=j",
                               "MODEL=a=b",         "OMPI_X=1"};
  EXPECT_EQ(variables_to_pass(own, {"MODEL", "ABSENT"}),
            (EnvironmentList{"PACELINE_PORTS=7000-7100", "UCX_TLS=tcp", "OMP_NUM_THREADS=2", "MODEL=a=b"}));
}

TEST(VariablesToPass, TheSecretIsNotEvenPassedByName) {
  EXPECT_EQ(variables_to_pass({"PACELINE_SECRET=s"}, {"PACELINE_SECRET"}), EnvironmentList{});
}

TEST(WorkerEnvironment, TellsHowManyServersThereAreAndNothingOfThoseOfAnotherJob) {
  EXPECT_EQ(variable(worker_environment({"PACELINE_SERVERS=9"}, kWorker), "PACELINE_SERVERS"), "");
  WorkerVariables worker = kWorker;
  worker.servers = 2;
  EXPECT_EQ(variable(worker_environment({"PACELINE_SERVERS=9"}, worker), "PACELINE_SERVERS"), "2");
  EXPECT_EQ(variables_to_pass({"PACELINE_SERVERS=2"}, {}), EnvironmentList{});
}

}  // namespace
}  // namespace paceline
