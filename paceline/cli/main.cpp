// The `paceline` program. Wires its subcommands; each lives in a file of its own.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "paceline/cli/bench_command.hpp"
#include "paceline/cli/compare_command.hpp"
#include "paceline/cli/doctor_command.hpp"
#include "paceline/cli/doctor_worker.hpp"
#include "paceline/cli/fetch_command.hpp"
#include "paceline/cli/host_agent_command.hpp"
#include "paceline/cli/parse_sentence.hpp"
#include "paceline/cli/predict_command.hpp"
#include "paceline/cli/run_command.hpp"
#include "paceline/cli/train_command.hpp"
#include "paceline/cli/train_server.hpp"
#include "paceline/core/error.hpp"

int main(int argc, char** argv) {
  CLI::App app("Distributed training of machine-learning models from C++", "paceline");
  app.set_version_flag("--version", "paceline " PACELINE_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
  paceline::add_run_command(app, exit_code);
  paceline::add_host_agent_command(app, exit_code);
  paceline::add_train_command(app, exit_code);
  paceline::add_train_server_command(app, exit_code);
  paceline::add_fetch_command(app, exit_code);
  paceline::add_predict_command(app, exit_code);
  paceline::add_compare_command(app, exit_code);
  paceline::add_bench_command(app, exit_code);
  paceline::add_doctor_command(app, exit_code);
  paceline::add_doctor_worker_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::fprintf(stderr, "paceline: %s; --help lists what there is\n", paceline::parse_sentence(error).c_str());
    return 2;
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "paceline: %s\n", error.what());
    return error.code() == paceline::Code::invalid ? 2 : 1;
  }
  return exit_code;
}
