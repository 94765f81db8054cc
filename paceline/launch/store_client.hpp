// StoreClient: a worker's connection to the rendezvous store. Blocking, with a deadline on every call. One thread owns
// it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/fabric/address.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/client_session.hpp"

namespace paceline {

class StoreClient {
 public:
  // Connects, again and again until the deadline, because the store may come later than its clients and may turn
  // connections away while strangers storm it. Throws Error{refused} when the store is not that of this job,
  // Error{timeout} when there is none, Error{invalid} for an address beyond loopback without a secret.
  StoreClient(const Address& address, const Terms& terms, TimePoint deadline, const Clock& clock);

  // This side's address of the connection, without the port.
  std::string local_address() const;

  // All throw Error{timeout} at the deadline and Error{peer_lost} when the store is gone.
  void set(const std::string& key, const std::string& value, TimePoint deadline);
  // False when the key had a value already, which stays.
  bool claim(const std::string& key, const std::string& value, TimePoint deadline);
  // Waits until the key has a value.
  std::string get(const std::string& key, TimePoint deadline);
  // The values of many keys; nullopt for those that had none at the deadline.
  std::vector<std::optional<std::string>> collect(const std::vector<std::string>& keys, TimePoint deadline);

 private:
  bool try_connect(TimePoint deadline);
  bool handshake(TimePoint deadline);
  std::uint32_t ask(Ask ask, const std::string& key, const std::string& value);
  Reply call(Ask ask, const std::string& key, const std::string& value, TimePoint deadline);
  enum class Progress { moved, timeout, lost };
  Progress move(TimePoint deadline);
  bool transfer(short ready);
  [[noreturn]] void lost() const;

  // Constant after construction.
  std::string name_;
  SocketAddress address_;
  Terms terms_;
  const Clock& clock_;

  Descriptor socket_;
  std::optional<ClientSession> session_;
  std::uint32_t next_id_ = 1;
  std::map<std::uint32_t, Reply> replies_;  // that nobody has taken yet
};

}  // namespace paceline
