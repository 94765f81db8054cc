#include "tests/schedulers/program.hpp"

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

}  // namespace paceline
