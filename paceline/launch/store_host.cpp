#include "paceline/launch/store_host.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>

#include "paceline/core/error.hpp"
#include "paceline/fabric/quiet_thread.hpp"

namespace paceline {

StoreHost::StoreHost(StoreServerOptions options, const Clock& clock)
    : stop_(eventfd(0, EFD_CLOEXEC)), server_(std::move(options), clock) {
  if (!stop_.valid()) throw system_error("cannot create an eventfd", errno);
  address_ = server_.address();
  thread_ = quiet_thread([this] { serve(); });
}

StoreHost::~StoreHost() { eventfd_write(stop_.number(), 1); }

void StoreHost::serve() {
  pollfd entries[2] = {};
  entries[0].fd = server_.descriptor();
  entries[1].fd = stop_.number();
  entries[0].events = entries[1].events = POLLIN;
  while (entries[1].revents == 0) {
    poll(entries, 2, -1);
    server_.progress();
  }
}

}  // namespace paceline
