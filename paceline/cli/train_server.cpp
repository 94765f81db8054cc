#include "paceline/cli/train_server.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "paceline/cli/train_worker.hpp"
#include "paceline/core/error.hpp"
#include "paceline/exchange/plan.hpp"
#include "paceline/launch/server_seat.hpp"
#include "paceline/server/serve.hpp"

namespace paceline {
namespace {

// What ends workers in good order goes to all processes of a job. Workers need their servers to the end; a server sees
// when they have gone, whatever the way.
void leave_signals_to_workers() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) signal(number, SIG_IGN);
}

void serve_workers(ServerSeat& seat, const Plan& plan) {
  ServeOptions options{.index = seat.index(), .servers = seat.servers(), .policy = plan.policy()};
  options.workers.resize(static_cast<std::size_t>(seat.workers()));
  std::iota(options.workers.begin(), options.workers.end(), 0);
  serve(seat.endpoint(), options);
  seat.endpoint().close();
}

// What happened to another rank is told by the workers.
int fail(const std::optional<ServerSeat>& seat, const Error& error) {
  if (!seat && error.rank() != kNoRank) return kFollowerExit;
  fmt::print(stderr, "paceline: a server has failed: {}\n", error.what());
  return error.code() == Code::invalid ? kRefusedExit : 1;
}

int serve_safely(const std::string& words) {
  std::optional<ServerSeat> seat;
  try {
    const Plan plan = parse_plan(words);
    seat.emplace([](const std::string& name) -> std::optional<std::string> {
      const char* value = std::getenv(name.c_str());
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    });
    leave_signals_to_workers();
    serve_workers(*seat, plan);
    return 0;
  } catch (const Error& error) {
    return fail(seat, error);
  }
}

}  // namespace

void add_train_server_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(kTrainServer, "One server of paceline train --servers-on");
  command->group("");                           // hidden
  auto plan = std::make_shared<std::string>();  // shared: the callback must be copyable
  command->add_option("plan", *plan, "As config.json has it")->required();
  command->callback([plan, &exit_code] { exit_code = serve_safely(*plan); });
}

}  // namespace paceline
