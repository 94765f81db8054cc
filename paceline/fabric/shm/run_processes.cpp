#include "paceline/fabric/shm/run_processes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "paceline/fabric/descriptor.hpp"
#include "paceline/fabric/shm/shm.hpp"

namespace paceline::shm {
namespace {

int run_one(const ConnectOptions& options, Door door, const std::function<int(Endpoint&)>& body) {
  try {
    const auto endpoint = connect(options, std::move(door));
    return body(*endpoint);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", options.rank, error.what());
    return 1;
  }
}

// The children's process numbers, known to all of them once the last has been forked.
class Pids {
 public:
  explicit Pids(int size) : bytes_(static_cast<std::size_t>(size) * sizeof(pid_t)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw system_error("cannot map a page", errno);
    all_ = static_cast<pid_t*>(memory);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw system_error("cannot make a pipe", errno);
    reader_ = Descriptor(ends[0]);
    writer_ = Descriptor(ends[1]);
  }
  ~Pids() { munmap(all_, bytes_); }
  Pids(const Pids&) = delete;
  Pids& operator=(const Pids&) = delete;

  pid_t& operator[](std::size_t rank) const { return all_[rank]; }
  // The pipe ends when nobody holds its writing end any more: each child lets go of its own here, the parent in
  // complete().
  void complete() { writer_ = Descriptor(); }
  void wait_until_complete() {
    complete();
    char nothing = 0;
    while (read(reader_.number(), &nothing, 1) < 0 && errno == EINTR) {
    }
  }

 private:
  std::size_t bytes_;
  pid_t* all_ = nullptr;
  Descriptor reader_;
  Descriptor writer_;
};

}  // namespace

std::vector<int> run_processes(int size, const std::function<int(Endpoint&)>& body) {
  std::vector<Door> doors(static_cast<std::size_t>(size));
  ConnectOptions options{.token = doors[0].name().substr(0, 40),
                         .deadline = SteadyClock().after(std::chrono::seconds(60))};
  for (const Door& door : doors) options.peers.push_back({door.name(), {"this host", 0}});
  Pids pids(size);
  std::fflush(nullptr);  // what is in the buffers now must not come out of every child once more
  const pid_t parent = getpid();
  for (Rank rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw system_error("cannot fork", errno);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      Door own = std::move(doors[static_cast<std::size_t>(rank)]);
      doors.clear();
      options.rank = rank;
      pids.wait_until_complete();
      for (std::size_t peer = 0; peer < options.peers.size(); ++peer) options.peers[peer].identity.pid = pids[peer];
      const int status = run_one(options, std::move(own), body);
      std::fflush(nullptr);
      _exit(status);
    }
    pids[static_cast<std::size_t>(rank)] = child;
  }
  pids.complete();
  doors.clear();
  std::vector<int> endings;
  for (Rank rank = 0; rank < size; ++rank) {
    int status = 0;
    while (waitpid(pids[static_cast<std::size_t>(rank)], &status, 0) < 0 && errno == EINTR) {
    }
    endings.push_back(status);
  }
  return endings;
}

}  // namespace paceline::shm
