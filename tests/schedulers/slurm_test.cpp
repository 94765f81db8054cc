#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/schedulers/program.hpp"
#include "tests/schedulers/slurm_cluster.hpp"

namespace paceline {
namespace {

using Words = std::vector<std::string>;

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Slurm : public SlurmTest {
 protected:
  Slurm() : SlurmTest(4) {}
};

TEST_F(Slurm, WithPmixItIsAsUnderMpirun) {
  if (!has_pmix()) GTEST_SKIP() << "this Slurm was built without PMIx";
  const Ended ended = srun({"--mpi=pmix", "-n", "4", PACELINE_WORKER});
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(sorted_lines(ended.output), Words({"rank 0 of 4 has both texts", "rank 1 of 4 has both texts",
                                               "rank 2 of 4 has both texts", "rank 3 of 4 has both texts"}));
  const Ended joined = srun({"--mpi=pmix", "-n", "3", PACELINE_JOINER});
  EXPECT_EQ(sorted_lines(joined.output), Words({"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"})) << joined.errors;
  const Ended late = srun({"--mpi=pmix", "-K", "-n", "4", PACELINE_WORKER, "0.5", "absent", "2"});
  EXPECT_NE(late.exit_code, 0);
  EXPECT_TRUE(contains(late.output, "error: timeout: rank 2 of 4 did not come within 0.5 s")) << late.output;
}

TEST_F(Slurm, WithoutPmixEveryTaskIsRefused) {
  for (const std::string kind : {"none", "pmi2"}) {
    const Ended ended = srun({"--mpi=" + kind, "-n", "4", PACELINE_WORKER});
    EXPECT_EQ(ended.exit_code, 3) << kind;
    const Words lines = sorted_lines(ended.output);
    EXPECT_EQ(lines.size(), 4u) << ended.output;
    for (const std::string& line : lines) {
      EXPECT_TRUE(contains(line, "error: invalid: srun started 4 tasks without PMIx")) << line;
    }
  }
  EXPECT_EQ(srun({"--mpi=none", "-n", "1", PACELINE_WORKER}).output, "alone\n");
}

TEST_F(Slurm, ABatchScriptAndAShellOfSallocAreNoTasks) {
  const std::string run = PACELINE_PROGRAM " run -n 2 " PACELINE_WORKER;
  const std::string file = cluster_->folder() + "/batch.out";
  const Ended batch =
      cluster_->command("sbatch", {"--wait", "-n", "4", "--output=" + file, "--wrap", run + "; " PACELINE_WORKER})
          .wait();
  EXPECT_EQ(batch.exit_code, 0) << batch.errors;
  EXPECT_EQ(sorted_lines(contents(file)), Words({"[0] alone", "[1] alone", "alone"}));
  EXPECT_EQ(cluster_->command("salloc", {"-n", "4", PACELINE_WORKER}).wait().output, "alone\n");
}

}  // namespace
}  // namespace paceline
