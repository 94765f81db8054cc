#include "paceline/fabric/shm/run_processes.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

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

}  // namespace

std::vector<int> run_processes(int size, const std::function<int(Endpoint&)>& body) {
  std::vector<Door> doors(static_cast<std::size_t>(size));
  ConnectOptions options{.token = doors[0].name().substr(0, 40), .deadline = SteadyClock().after(std::chrono::seconds(60))};
  for (const Door& door : doors) options.peers.push_back({door.name(), {"this host", 0}});
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw system_error("cannot fork", errno);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      Door own = std::move(doors[static_cast<std::size_t>(rank)]);
      doors.clear();
      options.rank = rank;
      for (Peer& peer : options.peers) peer.identity.pid = 0;
      const int status = run_one(options, std::move(own), body);
      std::fflush(nullptr);
      _exit(status);
    }
    children.push_back(child);
  }
  doors.clear();
  std::vector<int> endings;
  for (const pid_t child : children) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    endings.push_back(status);
  }
  return endings;
}

}  // namespace paceline::shm
