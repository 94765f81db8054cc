#include "paceline/launch/join.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "paceline/fabric/thread/thread.hpp"
#include "paceline/launch/environment.hpp"
#include "paceline/launch/lifeline.hpp"
#include "paceline/launch/meeting.hpp"
#include "paceline/launch/store_host.hpp"

namespace paceline {

struct Job::State {
  Rank rank = 0;
  int size = 1;
  std::string host;
  SteadyClock clock;
  // In the order in which they must outlive each other: the endpoint goes first.
  std::optional<Lifeline> lifeline;
  std::optional<StoreHost> store;
  std::unique_ptr<Endpoint> endpoint;
};

namespace {

std::optional<std::string> look_up(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string host_name() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

Rank Job::rank() const { return state_->rank; }
int Job::size() const { return state_->size; }
// Shared memory is the one transport between processes, so that all ranks are on this host.
int Job::local_rank() const { return state_->rank; }
int Job::local_size() const { return state_->size; }
const std::string& Job::host() const { return state_->host; }
Endpoint& Job::endpoint() { return *state_->endpoint; }

Job join(int /*argc*/, char** /*argv*/) {
  const auto environment = read_environment(look_up).value_or(Environment());
  // Children of this process have no part in the job.
  unsetenv("PACELINE_SECRET");
  unsetenv("PACELINE_LIFELINE");

  auto state = std::make_unique<Job::State>();
  state->rank = environment.rank;
  state->size = environment.size;
  state->host = host_name();
  if (environment.lifeline) state->lifeline.emplace(*environment.lifeline);
  if (environment.size == 1) {
    state->endpoint = std::move(make_thread_endpoints(1).front());
    return Job(std::move(state));
  }

  const Terms terms{.secret = environment.secret};
  const TimePoint deadline = state->clock.after(environment.join_timeout);
  const bool serves = environment.rank == 0 && !environment.lifeline;
  if (serves) state->store.emplace(StoreServerOptions{.address = environment.store, .terms = terms}, state->clock);
  StoreClient client(environment.store, terms, deadline, state->clock);
  state->endpoint = meet({.rank = environment.rank,
                          .size = environment.size,
                          .secret = environment.secret,
                          .host = state->host,
                          .timeout = environment.join_timeout,
                          .deadline = deadline},
                         client);
  if (serves) await_all_met(environment.size, deadline, client);
  return Job(std::move(state));
}

}  // namespace paceline
