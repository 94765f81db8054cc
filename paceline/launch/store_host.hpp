// StoreHost: a StoreServer with a thread of its own, for a job that has no launcher: its rank 0 serves the store.
#pragma once

#include <thread>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/store_server.hpp"

namespace paceline {

class StoreHost {
 public:
  // The clock outlives the host.
  StoreHost(StoreServerOptions options, const Clock& clock);
  ~StoreHost();
  const Address& address() const { return address_; }

 private:
  void serve();

  // Constant after construction.
  Address address_;
  Descriptor stop_;
  // Owned by the thread.
  StoreServer server_;
  std::jthread thread_;
};

}  // namespace paceline
