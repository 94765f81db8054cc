#include "paceline/fabric/ucx/run_hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <mutex>
#include <thread>

#include "paceline/fabric/ucx/ucx_wire.hpp"

namespace paceline::ucx {

void run_hosts(const RunHosts& how, const std::function<void(Endpoint&)>& body) {
  std::vector<Doors> doors;
  HostsOptions options{.deadline = SteadyClock().after(std::chrono::seconds(60)), .link = how.link};
  for (Rank rank = 0; rank < how.size; ++rank) {
    Doors& own = doors.emplace_back(Doors{shm::Door(), ControlDoor("127.0.0.1"), open_wire({.devices = "lo"})});
    const int host = rank / how.ranks_per_host;
    options.peers.push_back({.host = host,
                             .door = own.door.name(),
                             .control = own.control.address(),
                             .wire = own.wire->address(),
                             .identity = {fmt::format("host{}", host), getpid()}});
  }
  options.token = options.peers.front().door.substr(0, 40);
  std::copy_n(reinterpret_cast<const std::byte*>(options.token.data()) + 16, options.wire_token.size(),
              options.wire_token.begin());
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < how.size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          HostsOptions mine = options;
          mine.rank = rank;
          const auto endpoint = connect_hosts(mine, std::move(doors[static_cast<std::size_t>(rank)]));
          body(*endpoint);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (first == nullptr) first = std::current_exception();
        }
      });
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace paceline::ucx
