// `paceline host-agent`: what `paceline run --hosts` starts on each host. Not listed among the commands.
#pragma once

#include <CLI/App.hpp>

namespace paceline {

// Adds the subcommand. When it was chosen, parsing `app` runs the agent and stores its exit code.
void add_host_agent_command(CLI::App& app, int& exit_code);

}  // namespace paceline
