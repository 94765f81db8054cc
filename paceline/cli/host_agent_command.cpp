#include "paceline/cli/host_agent_command.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/cli/run_command.hpp"
#include "paceline/launch/host_agent.hpp"

namespace paceline {

void add_host_agent_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("host-agent", "Start and watch the workers of this host for a launcher");
  command->group("");  // hidden
  command->callback([&exit_code] { exit_code = run_host_agent(own_environment()); });
}

}  // namespace paceline
