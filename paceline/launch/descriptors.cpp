#include "paceline/launch/descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/error.hpp"

namespace paceline {

Pipe::Pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw system_error("cannot create a pipe", errno);
  read_end = Descriptor(ends[0]);
  write_end = Descriptor(ends[1]);
}

void occupy_standard_descriptors() {
  int opened = 0;
  while (opened >= 0 && opened <= 2) opened = open("/dev/null", O_RDWR);
  if (opened > 2) close(opened);
}

rlimit raise_open_files() {
  rlimit original = {};
  getrlimit(RLIMIT_NOFILE, &original);
  rlimit raised = original;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  return original;
}

}  // namespace paceline
