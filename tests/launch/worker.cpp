// What the tests of this folder start: joins its job, says who it is, and with the argument "stay" stays.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "paceline/launch/join.hpp"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    auto job = paceline::join(argc, argv);
    std::printf("rank %d of %d\n", job.rank(), job.size());
    if (std::getenv("PACELINE_SECRET") != nullptr) std::printf("the secret is still in the environment\n");
    while (argc > 1 && std::string(argv[1]) == "stay") pause();
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 3;
  }
}
