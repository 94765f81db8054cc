#include "paceline/launch/guardian.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/launch/descriptors.hpp"
#include "paceline/launch/sweep.hpp"

namespace paceline {
namespace {

// Messages are ints: a worker to watch, the negative of one to forget, or this.
constexpr int kDismissed = 0;

// Out of the terminal's reach, with nothing open but the pipe, which becomes descriptor 3.
int detach(int pipe) {
  setsid();
  prctl(PR_SET_NAME, "paceline-guard");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int null = open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard) dup2(null, standard);
  // Hold no folder either, so that it can be unmounted; if that fails, nothing else is lost.
  [[maybe_unused]] const int moved = chdir("/");
  dup2(pipe, 3);
  close_range(4, ~0U, 0);  // with it the pipe whose end tells the launcher that all this is done
  return 3;
}

[[noreturn]] void guard(int pipe, const std::string& job) {
  std::set<int> groups;
  int message = 0;
  ssize_t got = 0;
  while ((got = read(pipe, &message, sizeof message)) == sizeof message || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    if (message == kDismissed) _exit(0);
    message > 0 ? void(groups.insert(message)) : void(groups.erase(-message));
  }
  for (const int group : groups) kill(-group, SIGKILL);
  kill_job(job);
  _exit(0);
}

void tell(int pipe, int message) {
  // Fails only if somebody killed the guardian; the job goes on without it.
  [[maybe_unused]] const ssize_t wrote = write(pipe, &message, sizeof message);
}

}  // namespace

Guardian::Guardian(const std::string& job) {
  Pipe pipe;
  Pipe ready;
  process_ = fork();
  if (process_ < 0) throw system_error("cannot start the guardian process", errno);
  if (process_ == 0) guard(detach(pipe.read_end.number()), job);
  pipe_ = std::move(pipe.write_end);
  ready.write_end = Descriptor();
  char nothing = 0;
  while (read(ready.read_end.number(), &nothing, 1) < 0 && errno == EINTR) {
  }
}

Guardian::~Guardian() {
  tell(pipe_.number(), kDismissed);
  pipe_ = Descriptor();
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::forget(pid_t worker) { tell(pipe_.number(), -worker); }

}  // namespace paceline
