#include <gtest/gtest.h>

#include "tests/launch/command.hpp"
#include "tests/schedulers/program.hpp"
#include "tests/schedulers/two_hosts.hpp"

namespace paceline {
namespace {

using Words = std::vector<std::string>;

// `mpirun` alone may be MPICH's.
class OpenMpi : public testing::Test {
 protected:
  void SetUp() override {
    forgive_leaks_of_pmix();
    program_ = find_program("mpirun.openmpi");
    if (program_.empty()) GTEST_SKIP() << "Open MPI's mpirun is not installed (openmpi-bin)";
  }

  Words mpirun_words(const Words& options, const Words& program) const {
    Words command = {program_, "--allow-run-as-root", "--oversubscribe"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), program.begin(), program.end());
    return command;
  }

  Command mpirun(const std::string& workers, const Words& program) const {
    return Command(mpirun_words({"--mca", "oob_tcp_if_include", "lo", "-np", workers}, program));
  }

  // Two processes on each of the hosts.
  Command mpirun_on(const TwoHosts& hosts, const Words& program) const {
    const std::string places = std::string(hosts.kAddresses[0]) + ":2," + hosts.kAddresses[1] + ":2";
    return Command(hosts.on_first(mpirun_words({"--mca", "plm", "rsh", "--mca", "plm_rsh_agent", hosts.login(), "--mca",
                                                "oob_tcp_if_include", TwoHosts::kNetwork, "--host", places, "-np", "4"},
                                               program)));
  }

 private:
  std::string program_;
};

Words ranks_of(int size, const std::string& then) {
  Words lines;
  for (int rank = 0; rank < size; ++rank) {
    lines.push_back("rank " + std::to_string(rank) + " of " + std::to_string(size) + then);
  }
  return lines;
}

TEST_F(OpenMpi, WorkersKnowTheirRanksAndShareWhatRankZeroSays) {
  for (int size : {1, 2, 4}) {
    const Ended ended = mpirun(std::to_string(size), {PACELINE_WORKER}).wait();
    EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
    EXPECT_EQ(sorted_lines(ended.output), ranks_of(size, " has both texts")) << ended.errors;
  }
}

TEST_F(OpenMpi, AProgramThatJoinsMeetsTheOthers) {
  for (int size : {1, 3}) {
    const Ended ended = mpirun(std::to_string(size), {PACELINE_JOINER}).wait();
    EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
    EXPECT_EQ(sorted_lines(ended.output), ranks_of(size, "")) << ended.errors;
  }
}

TEST_F(OpenMpi, OnTwoHostsItIsTheSame) {
  const TwoHosts hosts;
  if (!hosts.ready()) GTEST_SKIP() << "two hosts need root and network namespaces";
  const Ended shared = mpirun_on(hosts, {PACELINE_WORKER}).wait();
  EXPECT_EQ(exit_code_of_mpirun(shared), 0) << shared.errors;
  EXPECT_EQ(sorted_lines(shared.output), ranks_of(4, " has both texts")) << shared.errors;
  const Ended late = mpirun_on(hosts, {PACELINE_WORKER, "0.5", "absent", "3"}).wait();
  EXPECT_EQ(exit_code_of_mpirun(late), 3) << late.errors;
  EXPECT_TRUE(contains(late.output, "error: timeout: rank 3 of 4 did not come within 0.5 s")) << late.output;
}

TEST_F(OpenMpi, ThePartsOfAJobOfTwoProgramsAreOneJob) {
  const Ended ended = mpirun("1", {PACELINE_WORKER, ":", "-np", "1", PACELINE_WORKER}).wait();
  EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
  EXPECT_EQ(sorted_lines(ended.output), ranks_of(2, " has both texts"));
}

TEST_F(OpenMpi, TheRankThatDoesNotComeIsNamed) {
  const Ended ended = mpirun("4", {PACELINE_WORKER, "0.5", "absent", "2"}).wait();
  EXPECT_EQ(exit_code_of_mpirun(ended), 3) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "error: timeout: rank 2 of 4 did not come within 0.5 s")) << ended.output;
}

TEST_F(OpenMpi, ADeathBeforeSharingEndsTheJobAtOnce) {
  const Ended ended = mpirun("4", {PACELINE_WORKER, "1000", "dead", "2"}).wait();
  // Whichever mpirun sees first: the death, or one who was told of it.
  const bool told =
      exit_code_of_mpirun(ended) == 3 && contains(ended.output, "error: peer lost: rank 2 of 4 ended before");
  EXPECT_TRUE(told || exit_code_of_mpirun(ended) == 137)
      << exit_code_of_mpirun(ended) << ": " << ended.output << ended.errors;
}

TEST_F(OpenMpi, WorkersOfPacelineRunAreItsOwn) {
  const Ended ended = mpirun("1", {PACELINE_PROGRAM, "run", "-n", "2", PACELINE_WORKER}).wait();
  EXPECT_EQ(exit_code_of_mpirun(ended), 0) << ended.errors;
  EXPECT_EQ(sorted_lines(ended.output), Words({"[0] alone", "[1] alone"}));
}

// A variable that was left over, or a launcher that has ended since.
TEST(Pmix, AServerThatIsNotThereIsAnError) {
  forgive_leaks_of_pmix();
  const Ended ended = Command({PACELINE_WORKER}, {"PMIX_NAMESPACE=gone", "PMIX_RANK=0"}).wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_TRUE(contains(ended.output, "error: system: the launcher that PMIX_NAMESPACE and PMIX_RANK speak of"))
      << ended.output;
}

TEST(Mpich, ItsMpiexecIsRefusedByEveryWorker) {
  const std::string program = find_program("mpiexec.hydra");
  if (program.empty()) GTEST_SKIP() << "MPICH is not installed (mpich)";
  const Ended ended = Command({program, "-n", "2", PACELINE_WORKER}).wait();
  EXPECT_EQ(ended.exit_code, 3) << ended.errors;
  EXPECT_TRUE(contains(ended.output, "error: invalid: the mpiexec that started these 2 processes")) << ended.output;
  EXPECT_EQ(Command({program, "-n", "1", PACELINE_WORKER}).wait().output, "alone\n");
}

}  // namespace
}  // namespace paceline
