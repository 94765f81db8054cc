// LocalCrew: the workers of a job that run on this host, and its servers if they are processes of their own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/launch/cores.hpp"
#include "paceline/launch/crew.hpp"
#include "paceline/launch/descriptors.hpp"
#include "paceline/launch/outputs.hpp"
#include "paceline/launch/server_share.hpp"
#include "paceline/launch/spawner.hpp"
#include "paceline/launch/worker.hpp"
#include "paceline/launch/worker_environment.hpp"

namespace paceline {

struct LocalCrewOptions {
  std::vector<std::string> command;  // the program and its arguments
  EnvironmentList environment;       // what the workers' environment is made of
  std::string host;                  // to be named in sentences; empty: there is but one
  Rank first_rank = 0;
  int workers = 1;
  int size = 1;  // of the whole job
  ServerShare servers = {};
  std::string store;
  std::string secret;
  std::optional<int> threads;  // per worker; nullopt: cores / workers
  Bind bind = Bind::none;
  bool prefix = true;
  bool inherit_output = false;
  bool pass_input = false;  // rank 0 reads this process's standard input
  std::optional<int> follower_code;
};

class LocalCrew final : public Crew {
 public:
  // Both outlive the crew.
  LocalCrew(LocalCrewOptions options, Spawner& spawner, Outputs& outputs);
  // Workers still run here only when something threw; they are killed.
  ~LocalCrew() override;

  // Starts the workers. Returns why one could not be started; those before it run.
  std::optional<Failure> start();

  bool running() const override;
  void watch(PollSet& set) const override;
  std::optional<Failure> progress(const PollSet& set) override;
  TimePoint deadline() const override { return kNever; }
  void signal(int number) override;

 private:
  struct Part {
    Rank rank;
    const std::vector<std::string>& command;
    std::string file;  // where the command's program is
    Cores cores;
  };
  std::optional<Failure> start_part(const Part& part);
  std::string find(const std::vector<std::string>& command) const;
  EnvironmentList environment_of(Rank rank) const;
  std::optional<Failure> reap();
  bool is_follower(const Ending& ending) const;
  bool workers_run() const;
  std::string describe_rank(Rank rank) const;
  std::string here() const { return options_.host.empty() ? "" : " on " + options_.host; }

  // Constant after construction.
  const LocalCrewOptions options_;
  Spawner& spawner_;
  Outputs& outputs_;
  Pipe lifeline_;

  int threads_ = 1;
  std::vector<Worker> workers_;  // then the servers
};

}  // namespace paceline
