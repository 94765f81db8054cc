#include "tests/schedulers/program.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace paceline {

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  // Daemons are not on everybody's PATH.
  std::istringstream folders(std::string(path == nullptr ? "" : path) + ":/usr/sbin:/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (!folder.empty() && access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

void forgive_leaks_of_pmix() { setenv("LSAN_OPTIONS", "suppressions=" PACELINE_LEAKS ":print_suppressions=0", 1); }

int exit_code_of_mpirun(const Ended& ended) {
  if (ended.exit_code != 128 + SIGSEGV || !contains(ended.errors, "PMIx_server_finalize")) return ended.exit_code;
  const std::string says = "Exit code:";
  const auto at = ended.errors.find(says);
  return at == std::string::npos ? 0 : std::atoi(ended.errors.c_str() + at + says.size());
}

}  // namespace paceline
