// What the tests of this folder start under mpirun and srun: looks who started it, and takes part in sharing. Prints
// one line with a single write, so that launchers do not mix it with others'.
//
//   scheduler_worker [TIMEOUT [absent RANK | dead RANK]]   seconds; a rank that stays away, or is killed
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "paceline/launch/scheduler.hpp"

namespace {

using namespace std::string_literals;

// Bytes of all kinds, and none at all.
const std::string kFirst = "a secret\n\0 and what follows it"s;
const std::string kSecond;

std::optional<std::string> look_up(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void say(const std::string& text) {
  if (write(1, text.data(), text.size()) < 0) std::abort();
}

void misbehave(const std::string& how) {
  if (how == "dead") raise(SIGKILL);
  while (true) pause();
}

int work(int argc, char** argv) {
  const auto scheduler = paceline::find_scheduler(look_up);
  if (!scheduler) {
    say("alone\n");
    return 0;
  }
  if (argc > 3 && std::atoi(argv[3]) == scheduler->rank()) misbehave(argv[2]);
  const auto timeout = std::chrono::milliseconds(argc > 1 ? static_cast<int>(std::atof(argv[1]) * 1000) : 20'000);
  const bool speaks = scheduler->rank() == 0;
  const bool right = scheduler->share(speaks ? kFirst : "not mine", timeout) == kFirst &&
                     scheduler->share(speaks ? kSecond : "nor this", timeout) == kSecond;
  say(fmt::format("rank {} of {} has {}\n", scheduler->rank(), scheduler->size(),
                  right ? "both texts" : "wrong texts"));
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return work(argc, argv);
  } catch (const paceline::Error& error) {
    say(fmt::format("error: {}: {}\n", name(error.code()), error.what()));
    return 3;
  }
}
