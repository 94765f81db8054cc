#include "paceline/launch/spawner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/core/error.hpp"
#include "paceline/launch/sweep.hpp"

namespace paceline {

Spawner::Spawner() : null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {
  if (!null_.valid()) throw system_error("cannot open /dev/null", errno);
}

Spawner::~Spawner() { kill_job(job_); }

Spawned Spawner::spawn(SpawnOptions options) {
  options.guardian = guardian_.descriptor();
  options.signal_mask = signals_.original_mask();
  options.open_files = open_files_;
  Spawned spawned = paceline::spawn(options);
  if (spawned.error != 0) guardian_.forget(spawned.pid);
  return spawned;
}

std::string explain_start_failure(const std::string& program, const std::string& file, int error) {
  const bool interpreter = error == ENOENT && access(file.c_str(), F_OK) == 0;
  return fmt::format("cannot start {}: {}", program,
                     interpreter ? "the interpreter it names does not exist" : strerror(error));
}

int start_failure_code(int error) { return error == ENOENT ? 127 : 126; }

}  // namespace paceline
