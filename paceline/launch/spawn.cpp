#include "paceline/launch/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <sstream>

#include "paceline/core/error.hpp"
#include "paceline/launch/descriptors.hpp"

namespace paceline {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs, laid out before the fork: after it, only async-signal-safe calls are made.
struct ChildPlan {
  const SpawnOptions& options;
  char* const* arguments;
  char* const* environment;
  const cpu_set_t* cores;  // null: not bound
  std::size_t cores_bytes;
  pid_t launcher;
  int report;  // gets errno if the program cannot be started; closed by its start
};

bool wire_up(const ChildPlan& plan) {
  for (int i = 0; i < 3; ++i) {
    if (dup2(plan.options.standard[i], i) < 0) return false;
  }
  const int lifeline = plan.options.lifeline;
  return lifeline < 0 || fcntl(lifeline, F_SETFD, 0) == 0;
}

bool enter_job(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher) _exit(1);  // it died before the line above: its death signal will not come
  const int self = getpid();
  // The signal mask is still the launcher's, so that a dead guardian means EPIPE and no signal.
  const int guardian = plan.options.guardian;
  if (guardian >= 0 && write(guardian, &self, sizeof self) < 0 && errno != EPIPE) return false;
  return plan.cores == nullptr || sched_setaffinity(0, plan.cores_bytes, plan.cores) == 0;
}

[[noreturn]] void become_worker(const ChildPlan& plan) {
  if (enter_job(plan) && wire_up(plan)) {
    setrlimit(RLIMIT_NOFILE, &plan.options.open_files);
    sigprocmask(SIG_SETMASK, &plan.options.signal_mask, nullptr);
    execve(plan.options.file.c_str(), plan.arguments, plan.environment);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t wrote = write(plan.report, &error, sizeof error);
  _exit(127);
}

// Blocks until the child's program has taken over, which closes the other end, or could not.
int read_report(int report) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

struct CpuSet {
  explicit CpuSet(const Cores& cores) : size(cores.empty() ? 0 : static_cast<std::size_t>(cores.back()) + 1) {
    if (cores.empty()) return;
    bytes = CPU_ALLOC_SIZE(size);
    set = CPU_ALLOC(size);
    CPU_ZERO_S(bytes, set);
    for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), bytes, set);
  }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
  ~CpuSet() {
    if (set != nullptr) CPU_FREE(set);
  }
  std::size_t size;
  std::size_t bytes = 0;
  cpu_set_t* set = nullptr;
};

}  // namespace

Spawned spawn(const SpawnOptions& options) {
  Pipe report;
  const auto arguments = pointers(options.arguments);
  const auto environment = pointers(options.environment);
  const CpuSet cores(options.cores);
  const ChildPlan plan{.options = options,
                       .arguments = arguments.data(),
                       .environment = environment.data(),
                       .cores = cores.set,
                       .cores_bytes = cores.bytes,
                       .launcher = getpid(),
                       .report = report.write_end.number()};
  Spawned worker;
  worker.pid = fork();
  if (worker.pid == 0) become_worker(plan);
  if (worker.pid < 0) throw system_error("cannot start a worker process", errno);
  setpgid(worker.pid, worker.pid);  // the child does the same; whoever comes second does nothing
  report.write_end = Descriptor();
  worker.error = read_report(report.read_end.number());
  if (worker.error != 0) {
    waitpid(worker.pid, nullptr, 0);
    return worker;
  }
  worker.process = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, worker.pid, 0)));
  if (!worker.process.valid()) {
    const int error = errno;
    kill(-worker.pid, SIGKILL);
    waitpid(worker.pid, nullptr, 0);
    throw system_error("cannot watch a worker process", error);
  }
  return worker;
}

std::string find_program(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return program;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + program;
    struct stat status = {};
    if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace paceline
