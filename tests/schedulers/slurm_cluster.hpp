// SlurmCluster: a whole Slurm for one test. munged, slurmctld and slurmd run as children on loopback, with a folder, a
// key and ports of their own; a Slurm of the machine is not touched. All of it ends with the object.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/launch/command.hpp"

namespace paceline {

class SlurmCluster {
 public:
  // Why it cannot be: programs that are not installed, a host that does not know itself. Empty if it can.
  static std::string obstacle();

  // Returns when the one node takes jobs. A daemon that does not come up fails the test and leaves ready() false.
  explicit SlurmCluster(int tasks);
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;
  ~SlurmCluster();

  bool ready() const { return ready_; }
  const std::string& folder() const { return folder_; }
  // Any of Slurm's commands: srun, sbatch, squeue.
  Command command(const std::string& program, const std::vector<std::string>& arguments) const;

 private:
  void write_configuration(int tasks) const;
  void start(const std::string& program, const std::vector<std::string>& arguments);
  bool node_is_idle() const;

  std::string folder_;
  std::vector<Command> daemons_;
  bool ready_ = false;
};

// A test with a SlurmCluster; skipped where Slurm is not installed.
class SlurmTest : public testing::Test {
 protected:
  explicit SlurmTest(int tasks) : tasks_(tasks) {}
  void SetUp() override;
  Ended srun(const std::vector<std::string>& arguments) { return cluster_->command("srun", arguments).wait(); }
  bool has_pmix() { return srun({"--mpi=list"}).output.find("pmix") != std::string::npos; }

  std::optional<SlurmCluster> cluster_;

 private:
  int tasks_;
};

}  // namespace paceline
