#include "paceline/launch/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "paceline/core/error.hpp"
#include "paceline/launch/host_crew.hpp"
#include "paceline/launch/job_loop.hpp"
#include "paceline/launch/local_crew.hpp"
#include "paceline/launch/store_server.hpp"

namespace paceline {
namespace {

// Listens at the first port of the range that is free.
std::unique_ptr<StoreServer> open_store(const std::string& ip, PortRange ports, const std::string& secret,
                                        const Clock& clock) {
  for (int port = ports.first;; ++port) {
    try {
      return std::make_unique<StoreServer>(
          StoreServerOptions{.address = {ip, static_cast<std::uint16_t>(port)}, .terms = {.secret = secret}}, clock);
    } catch (const Error& error) {
      if (error.code() != Code::system || port >= ports.last) throw;
    }
  }
}

std::vector<int> numbers_below(int end) {
  std::vector<int> numbers(static_cast<std::size_t>(end));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// What a job needs wherever its workers are. The spawner comes first, so that its guardian inherits nothing of the
// rest.
class Launcher {
 public:
  explicit Launcher(const RunOptions& options) : options_(options) {}
  int run() { return options_.remote.hosts.empty() ? run_here() : run_on_hosts(); }

 private:
  int run_here();
  int run_on_hosts();
  template <class AnyCrew>
  int look_after(AnyCrew& crew, StoreServer& store);
  void announce(const Failure& failure);

  const RunOptions& options_;
  Spawner spawner_;
  SteadyClock clock_;
  const std::string secret_ = hex(random_bytes(32));
  Outputs outputs_{Outputs::Form::plain};
};

int Launcher::run_here() {
  const auto store = open_store("127.0.0.1", options_.ports, secret_, clock_);
  LocalCrew crew({.command = options_.command,
                  .environment = options_.environment,
                  .host = {},
                  .workers = options_.workers,
                  .size = options_.workers,
                  .servers = {.command = options_.servers.command,
                              .own = numbers_below(options_.servers.count),
                              .all = options_.servers.count},
                  .store = to_string(store->address()),
                  .secret = secret_,
                  .threads = options_.threads,
                  .bind = options_.bind,
                  .prefix = options_.prefix,
                  .inherit_output = options_.inherit_output,
                  .pass_input = true,
                  .follower_code = options_.follower_code},
                 spawner_, outputs_);
  return look_after(crew, *store);
}

int Launcher::run_on_hosts() {
  const auto ways = ways_to_launcher(options_.remote);
  const auto store = open_store(listening_address(ways), options_.ports, secret_, clock_);
  HostCrew crew({.run = options_, .ways = ways, .store_port = store->address().port, .secret = secret_}, spawner_,
                outputs_, clock_);
  return look_after(crew, *store);
}

template <class AnyCrew>
int Launcher::look_after(AnyCrew& crew, StoreServer& store) {
  JobLoop loop({.clock = clock_,
                .signals = spawner_.signals(),
                .crew = crew,
                .outputs = outputs_,
                .grace = options_.grace,
                .stops_with_workers = true,
                .announce = [this](const Failure& failure) { announce(failure); }});
  loop.add_source(store.descriptor(), [&] {
    store.progress();
    return true;
  });
  if (const auto failure = crew.start()) loop.fail_to_start(*failure);
  return loop.run();
}

void Launcher::announce(const Failure& failure) {
  const auto& told = options_.told_codes;
  if (!failure.is_cause && std::find(told.begin(), told.end(), failure.exit_code) != told.end()) return;
  outputs_.say(failure.sentence + (failure.others_remain ? "; ending the other workers" : ""));
}

}  // namespace

int run(const RunOptions& options) {
  occupy_standard_descriptors();
  return Launcher(options).run();
}

}  // namespace paceline
