// HostCrew: the workers of a job on several hosts, each host's under an agent of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "paceline/launch/crew.hpp"
#include "paceline/launch/host_link.hpp"
#include "paceline/launch/launcher.hpp"
#include "paceline/launch/outputs.hpp"
#include "paceline/launch/spawner.hpp"

namespace paceline {

// For each host the address by which it reaches this machine: the one that was given, or else the one from which this
// machine would send to the host. Throws Error{invalid}: a host that is not known.
std::vector<std::string> ways_to_launcher(const HostOptions& options);
// Where the store must listen to be found by all of them: everywhere, unless no way leads out of this machine.
std::string listening_address(const std::vector<std::string>& ways);
// Such that a shell reads it as one word.
std::string shell_word(const std::string& text);

struct HostCrewOptions {
  const RunOptions& run;
  std::vector<std::string> ways;
  std::uint16_t store_port = 0;
  std::string secret;
};

class HostCrew final : public Crew {
 public:
  HostCrew(HostCrewOptions options, Spawner& spawner, Outputs& outputs, const Clock& clock);
  // Links still run here only when something threw.
  ~HostCrew() override;

  // Starts the way to every host. Returns why one could not be started.
  std::optional<Failure> start();

  bool running() const override;
  void watch(PollSet& set) const override;
  std::optional<Failure> progress(const PollSet& set) override;
  TimePoint deadline() const override;
  // The second SIGKILL does not rely on the agents any more: it ends the links.
  void signal(int number) override;

 private:
  std::optional<Failure> start_link(const Host& host, const std::string& way, Rank first_rank);
  std::vector<std::string> command_for(const Host& host) const;
  std::string job_for(const Host& host, const std::string& way, Rank first_rank) const;
  void consider(Failure failure);
  std::optional<Failure> verdict();
  bool others_work() const;
  bool is_follower(const Failure& failure) const;

  // Constant after construction.
  const HostCrewOptions options_;
  Spawner& spawner_;
  Outputs& outputs_;
  const Clock& clock_;
  const std::string own_program_;
  const std::string remote_program_;

  std::deque<HostLink> links_;
  std::optional<Failure> candidate_;  // for the verdict
  TimePoint verdict_at_ = kNever;
  bool killed_ = false;
};

}  // namespace paceline
