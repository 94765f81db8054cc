// The inside of a Job, for those who make one and who extend it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "paceline/launch/environment.hpp"
#include "paceline/launch/join.hpp"
#include "paceline/launch/lifeline.hpp"
#include "paceline/launch/newcomer.hpp"
#include "paceline/launch/store_host.hpp"

namespace paceline {

struct Job::State {
  // Through the store that the environment names, which rank 0 serves if there is no launcher.
  void meet_others(const Environment& environment);

  Rank rank = 0;
  int size = 1;
  std::string host;
  SteadyClock clock;
  int servers = 0;            // that are processes of their own
  MeetOptions meeting;        // by which it has met the others, if there are any
  std::string local_address;  // of the connection to the store
  // In the order in which they must outlive each other: the endpoint goes first.
  std::optional<Lifeline> lifeline;
  std::unique_ptr<StoreHost> store;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<Endpoint> with_servers;  // among workers and servers, until extend takes it
};

}  // namespace paceline
