#include "paceline/launch/lifeline.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <cerrno>

#include "paceline/core/error.hpp"
#include "paceline/fabric/quiet_thread.hpp"

namespace paceline {
namespace {

bool is_pipe(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
}

}  // namespace

Lifeline::Lifeline(int descriptor) {
  if (!is_pipe(descriptor)) {
    throw Error(Code::invalid, fmt::format("PACELINE_LIFELINE is '{}' but descriptor {} is not a pipe: it is set by "
                                           "paceline run and of no use elsewhere",
                                           descriptor, descriptor));
  }
  pipe_ = Descriptor(descriptor);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  stop_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  if (!stop_.valid()) throw system_error("cannot create an eventfd", errno);
  watcher_ = quiet_thread([this] { watch(); });
}

Lifeline::~Lifeline() { eventfd_write(stop_.number(), 1); }

void Lifeline::watch() const {
  pollfd entries[2] = {};
  entries[0].fd = pipe_.number();
  entries[1].fd = stop_.number();
  entries[1].events = POLLIN;
  // Nothing is ever written to the pipe: it only hangs up.
  while (entries[0].revents == 0 && entries[1].revents == 0) poll(entries, 2, -1);
  if (entries[0].revents != 0) kill(getpid(), SIGKILL);
}

}  // namespace paceline
