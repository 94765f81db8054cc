// join: how a program meets the other workers of its job.
//
//   auto job = paceline::join(argc, argv);
//   fmt::print("I am {} of {}\n", job.rank(), job.size());
//
// A program started alone is a job of one. Started by `paceline run`, or with PACELINE_RANK, PACELINE_SIZE and
// PACELINE_STORE set, it meets the others through the rendezvous store and connects to them.
#pragma once

#include <memory>
#include <string>

#include "paceline/core/group.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

// What join returns. Move-only. The lifeline to the launcher, if there is one, is watched as long as the Job lives.
class Job {
 public:
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();

  Rank rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;
  const std::string& host() const;
  Endpoint& endpoint();
  Group group() const { return Group::world(size()); }

 private:
  friend Job join(int argc, char** argv);
  friend struct Extension extend(Job& job, int more);
  struct State;
  explicit Job(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Throws Error: bad or incomplete environment, a rank that did not come in time, a wrong secret or another version.
Job join(int argc, char** argv);

}  // namespace paceline
