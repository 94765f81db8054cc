#include "paceline/launch/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "paceline/fabric/thread/thread.hpp"
#include "paceline/launch/devices.hpp"
#include "paceline/launch/environment.hpp"
#include "paceline/launch/job_state.hpp"
#include "paceline/launch/meeting.hpp"
#include "paceline/launch/proof.hpp"
#include "paceline/launch/scheduler.hpp"

namespace paceline {

namespace {

std::optional<std::string> look_up(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Under a scheduler, rank 0 makes the secret and serves the store where the others can reach it.
std::unique_ptr<StoreHost> open_store(Environment& environment, const Clock& clock) {
  environment.secret = hex(random_bytes(32));
  const std::string& asked = environment.network.device;
  const std::string ip = outward_device(network_devices(), rdma_device(asked) ? "" : asked).address;
  const PortRange& ports = environment.network.ports;
  for (int port = ports.first;; ++port) {
    try {
      return std::make_unique<StoreHost>(StoreServerOptions{.address = {ip, static_cast<std::uint16_t>(port)},
                                                            .terms = {.secret = environment.secret}},
                                         clock);
    } catch (const Error& error) {
      if (error.code() != Code::system || port >= ports.last) throw;
    }
  }
}

// "10.0.0.1:4711 SECRET"
void take_store(const std::string& shared, Environment& environment) {
  const std::size_t space = shared.find(' ');
  if (space == std::string::npos) throw Error(Code::refused, 0, "what rank 0 told us about its store is malformed");
  environment.store = parse_address(shared.substr(0, space));
  environment.secret = shared.substr(space + 1);
}

}  // namespace

void Job::State::meet_others(const Environment& environment) {
  const Terms terms{.secret = environment.secret};
  const TimePoint deadline = clock.after(environment.join_timeout);
  const bool serves = environment.rank == 0 && !environment.lifeline;
  if (serves && !store)
    store = std::make_unique<StoreHost>(StoreServerOptions{.address = environment.store, .terms = terms}, clock);
  StoreClient client(environment.store, terms, deadline, clock);
  meeting = meet_options(environment, deadline);
  local_address = client.local_address();
  if (size > 1) endpoint = meet(meeting, client);
  // At once, so that servers see from the beginning whether their workers are still there.
  const MeetOptions second = paceline::with_servers(meeting, servers);
  if (servers > 0) with_servers = meet(second, client);
  if (serves) await_all_met(servers > 0 ? second : meeting, client);
}

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

Rank Job::rank() const { return state_->rank; }
int Job::size() const { return state_->size; }
int Job::local_rank() const {
  const auto& hosts = state_->endpoint->facts().hosts;
  const auto own = hosts.begin() + state_->rank;
  return static_cast<int>(std::count(hosts.begin(), own, *own));
}
int Job::local_size() const {
  const auto& hosts = state_->endpoint->facts().hosts;
  return static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(state_->rank)]));
}
const std::string& Job::host() const { return state_->host; }
Endpoint& Job::endpoint() { return *state_->endpoint; }

Job join(int /*argc*/, char** /*argv*/) {
  auto given = read_environment(look_up);
  auto scheduler = given ? nullptr : find_scheduler(look_up);
  Environment environment = given ? *given : read_common(look_up);
  if (scheduler != nullptr) {
    environment.rank = scheduler->rank();
    environment.size = scheduler->size();
  }
  if (environment.rank >= environment.size)
    throw Error(Code::invalid,
                fmt::format("PACELINE_RANK is '{}', which of {} workers and {} servers is a server: this "
                            "program is a worker",
                            environment.rank, environment.size, environment.servers));
  // Children of this process have no part in the job.
  unsetenv("PACELINE_SECRET");
  unsetenv("PACELINE_LIFELINE");

  auto state = std::make_unique<Job::State>();
  state->rank = environment.rank;
  state->size = environment.size;
  state->servers = environment.servers;
  state->host = host_name();
  if (environment.lifeline) state->lifeline.emplace(*environment.lifeline);
  if (environment.size == 1) state->endpoint = std::move(make_thread_endpoints(1).front());
  if (environment.size == 1 && environment.servers == 0) return Job(std::move(state));

  if (scheduler != nullptr) {
    if (environment.rank == 0) state->store = open_store(environment, state->clock);
    const std::string where =
        state->store ? to_string(state->store->address()) + " " + environment.secret : std::string();
    take_store(scheduler->share(where, environment.join_timeout), environment);
  }
  state->meet_others(environment);
  return Job(std::move(state));
}

}  // namespace paceline
