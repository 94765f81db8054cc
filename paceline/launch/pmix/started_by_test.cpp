#include "paceline/launch/pmix/started_by.hpp"

#include <gtest/gtest.h>

#include <map>

namespace paceline {
namespace {

using Variables = std::map<std::string, std::string>;

StartedBy start(const Variables& variables) {
  return started_by([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const Variables& variables) {
  try {
    start(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "accepted";
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "1614938113"}, {"PMIX_RANK", "2"}};
const Variables kHydra = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "6"}};
// What Slurm sets for a batch script of four tasks, and for a task of a step of four.
const Variables kBatch = {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
const Variables kStep = with(kBatch, {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}});
const Variables kSlurmPmix = with(kStep, {{"PMIX_NAMESPACE", "slurm.pmix.7.0"}, {"PMIX_RANK", "2"}});

TEST(StartedBy, AShellIsAHand) { EXPECT_EQ(start({{"HOME", "/root"}}), StartedBy::hand); }

TEST(StartedBy, PmixIsSeenUnderMpirunAndSrun) {
  EXPECT_EQ(start(kOpenMpi), StartedBy::pmix);
  EXPECT_EQ(start(kSlurmPmix), StartedBy::pmix);
}

TEST(StartedBy, HalfOfPmixIsNone) { EXPECT_EQ(start({{"PMIX_RANK", "0"}}), StartedBy::hand); }

TEST(StartedBy, PacelinesOwnVariablesWinInsideAnyLauncher) {
  for (const Variables& around : {Variables(), kOpenMpi, kHydra, kBatch, kStep, kSlurmPmix}) {
    for (const char* name : {"PACELINE_RANK", "PACELINE_SIZE", "PACELINE_STORE"}) {
      EXPECT_EQ(start(with(around, {{name, "1"}})), StartedBy::paceline) << name;
    }
  }
}

TEST(StartedBy, SrunWithoutPmixIsRefusedWithTheWayOut) {
  const std::string sentence = refusal(kStep);
  EXPECT_EQ(sentence.find("srun started 4 tasks without PMIx"), 0u) << sentence;
  EXPECT_NE(sentence.find("`srun --mpi=pmix`"), std::string::npos) << sentence;
}

TEST(StartedBy, SrunWithPmi2IsRefusedAsSrunAndNotAsMpich) {
  EXPECT_EQ(refusal(with(kStep, kHydra)).find("srun started 4 tasks"), 0u);
}

TEST(StartedBy, AnOlderSlurmHasOnlyTheTasksOfTheJob) {
  Variables step = kStep;
  step.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(refusal(step).find("srun started 4 tasks"), 0u);
  step["SLURM_NTASKS"] = "1";
  EXPECT_EQ(start(step), StartedBy::hand);
}

TEST(StartedBy, ABatchScriptAndAShellOfSallocAreHands) {
  EXPECT_EQ(start(kBatch), StartedBy::hand);
  EXPECT_EQ(start({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}), StartedBy::hand);
  // LaunchParameters=use_interactive_step: a step of one task that keeps the SLURM_NTASKS of the allocation.
  const Variables interactive = {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  EXPECT_EQ(start(with(kBatch, interactive)), StartedBy::hand);
}

TEST(StartedBy, HydraIsRefusedWithTheWayOut) {
  const std::string sentence = refusal(kHydra);
  EXPECT_NE(sentence.find("these 4 processes"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("`paceline run`"), std::string::npos) << sentence;
}

TEST(StartedBy, ASingleTaskIsAJobOfOneWhoeverStartedIt) {
  EXPECT_EQ(start(with(kHydra, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})), StartedBy::hand);
  EXPECT_EQ(start(with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})), StartedBy::hand);
}

TEST(StartedBy, ANumberOfTasksThatMakesNoSenseIsNotTakenForOne) {
  EXPECT_NE(refusal(with(kHydra, {{"PMI_SIZE", "x"}})), "accepted");
  EXPECT_NE(refusal(with(kStep, {{"SLURM_STEP_NUM_TASKS", ""}})), "accepted");
}

}  // namespace
}  // namespace paceline
