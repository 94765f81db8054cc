// The inside of a Communicator: keeps the operations under way moving, notices what goes wrong, and tells the others.
//
// Note [How a failure spreads]. Whoever sees one first (a message of another operation, a peer that is gone, a
// deadline, a dropped handle) breaks its Communicator and puts a Notice on its board, waking the others, who find it
// there and break theirs. Ranks that wait for each other without any message passing between them look at each other's
// boards after kFirstLook, and find that they are in different operations. So no wait lasts for ever unless a rank is
// merely late, and of that the user is warned. A sub-group breaks with the group it was split from, because members who
// have seen that one fail do not come to the sub-group's operations any more; not the other way round.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/collective/bulletin.hpp"
#include "paceline/collective/communicator.hpp"
#include "paceline/collective/planner.hpp"
#include "paceline/collective/run.hpp"
#include "paceline/collective/traffic.hpp"

namespace paceline {

// One operation under way, or ended and not yet let go by its Handle.
struct Flight {
  Run run;
  Posted posted;
  std::size_t bulletin_number = 0;
  std::optional<Error> error;
  bool active = false;
  TimePoint ended{};           // if waits are timed
  TimePoint look{};            // when to compare boards next
  TimePoint in_doubt_since{};  // see may_still_hear
  bool about_to_warn = false;
  Schedule own_schedule;  // of an operation whose schedule is not the planner's
};

class CommunicatorState {
 public:
  CommunicatorState(Endpoint& endpoint, Group group, CommunicatorOptions options, std::shared_ptr<Traffic> traffic);
  ~CommunicatorState();

  // From now on a failure of the group that this one was split from, or of one before it, breaks this one too.
  void break_with_parent(const CommunicatorState& parent);

  // Throws if the Communicator is broken.
  void check_usable() const;
  OpDescriptor describe(Collective op, const CollectiveOptions& options);
  Flight* take_flight();
  Handle launch(Flight* flight, Request&& request, const CollectiveOptions& options);

  // Moves the operations of all Communicators on the Endpoint; true if anything moved.
  bool step();
  bool test(Flight* flight);
  void wait(Flight* flight);
  void let_go(Flight* flight);
  [[noreturn]] void give_up(const std::string& reason, Rank culprit);

  Group agree_on_survivors(TimePoint deadline);

  Endpoint& endpoint;
  const Group group;
  const CommunicatorOptions options;
  const std::shared_ptr<Traffic> traffic;  // shared by the Communicators on the Endpoint, which end in any order
  Bulletin& bulletin;                      // the traffic's
  const int self;
  Planner planner;
  std::uint64_t sequence = 0;
  std::uint64_t splits = 0;
  Algorithm last_algorithm = Algorithm::automatic;
  Duration time_waited{};  // counted if options.time_waits

 private:
  bool advance_all();
  void finish(Flight& flight);
  void read_notices();
  void look_around(Flight& flight);
  void glance(TimePoint now);
  Rank lost_member();
  void watch(Flight& flight);
  void idle(TimePoint until);
  bool explain(Notice& notice) const;
  bool may_still_hear(Flight& flight) const;
  void fail(Flight& flight, const Error& error);
  void break_with(const Notice& notice);
  Error error_for(const Notice& notice, const OpDescriptor& mine) const;
  std::string last_seen(Rank peer) const;
  void warn_late(Flight& flight, const std::vector<Rank>& missing);
  void warn_not_recovering(const std::vector<bool>& alive, Duration waited) const;
  void warn(const std::string& text) const;
  std::optional<std::pair<OpDescriptor, OpDescriptor>> disagreement(Rank peer) const;
  std::optional<Posted> peers_version(Rank peer, const OpDescriptor& mine) const;
  bool has_reached(Rank peer, const OpDescriptor& mine) const;

  std::vector<std::unique_ptr<Flight>> all_;
  std::vector<Flight*> free_;
  std::vector<Flight*> active_;  // in the order of their start
  std::optional<Notice> broken_;
  std::uint64_t alerts_seen_ = 0;
  std::uint64_t departures_seen_ = 0;
  std::uint64_t history_ = 0;            // see OpDescriptor
  std::vector<std::uint64_t> contexts_;  // whose notices break this Communicator
  TimePoint next_glance_{};
};

}  // namespace paceline
