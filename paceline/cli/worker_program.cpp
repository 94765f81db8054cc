#include "paceline/cli/worker_program.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <filesystem>

#include "paceline/cli/run_command.hpp"
#include "paceline/cli/train_worker.hpp"
#include "paceline/core/error.hpp"

namespace paceline {

namespace fs = std::filesystem;

std::string own_program() { return fs::read_symlink("/proc/self/exe").string(); }

std::string torch_worker_program() {
  const fs::path beside = fs::path(own_program()).parent_path() / kTorchWorker;
  if (fs::exists(beside)) return beside.string();
  throw Error(Code::invalid, fmt::format("{} is missing: this paceline was built without LibTorch (PACELINE_TORCH=OFF)",
                                         beside.string()));
}

RunOptions torch_worker_options() {
  RunOptions options;
  options.environment = own_environment();
  if (variable(options.environment, kTunables).empty())
    set_variable(options.environment, kTunables, "glibc.malloc.hugetlb=1");
  options.follower_code = kFollowerExit;
  options.told_codes = {kRefusedExit, kTroubleExit, kSignalExit + SIGINT, kSignalExit + SIGTERM, kSignalExit + SIGUSR1};
  options.grace = std::chrono::milliseconds(1500);  // a worker that is still there then waits for nobody
  return options;
}

int run_torch_workers(const RunOptions& options) {
  const int code = run(options);
  return code == kFollowerExit || code == kTroubleExit ? 1 : code;
}

}  // namespace paceline
