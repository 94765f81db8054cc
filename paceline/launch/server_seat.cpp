#include "paceline/launch/server_seat.hpp"

#include "paceline/launch/meeting.hpp"

namespace paceline {
namespace {

Environment environment_of_server(const Lookup& lookup) {
  const auto environment = read_environment(lookup);
  if (environment && environment->rank >= environment->size) return *environment;
  throw Error(Code::invalid, "this is a server of `paceline train --servers-on`, which starts it");
}

}  // namespace

ServerSeat::ServerSeat(const Lookup& lookup) : environment_(environment_of_server(lookup)) {
  if (environment_.lifeline) lifeline_.emplace(*environment_.lifeline);
  const TimePoint deadline = clock_.after(environment_.join_timeout);
  StoreClient client(environment_.store, {.secret = environment_.secret}, deadline, clock_);
  endpoint_ = meet(with_servers(meet_options(environment_, deadline), environment_.servers), client);
}

}  // namespace paceline
