// VerifyCase: the schedules under proof, who meets whom, and what was found so far. Part of verify.hpp: the parts of
// the proof are functions over a case, in the order in which they are declared here.
#pragma once

#include <string>
#include <vector>

#include "paceline/collective/verify.hpp"

namespace paceline {

// A step of a rank, or nothing.
struct Place {
  int rank = -1;
  int step = -1;
};

struct VerifyCase {
  const Goal& goal;
  std::vector<Schedule> schedules = {};           // by rank
  std::vector<std::vector<Place>> partners = {};  // by rank and step: the other end of a message
  std::vector<std::string> findings = {};

  int ranks() const { return goal.ranks; }
  const Schedule& schedule(int rank) const { return schedules[static_cast<std::size_t>(rank)]; }
  const Step& step(Place place) const { return schedule(place.rank).steps[static_cast<std::size_t>(place.step)]; }
  Place partner(Place place) const {
    return partners[static_cast<std::size_t>(place.rank)][static_cast<std::size_t>(place.step)];
  }
  // How many blocks a buffer of a rank has.
  int blocks_in(int rank, Buffer buffer) const;
  void report(Place place, const std::string& what);
};

// What a step reads or writes of its own rank's memory. Worked out here again and not taken from schedule.hpp's reads()
// and writes(): those made the waits that are to be proven.
struct Touch {
  Blocks blocks;
  bool writes = false;
};
std::vector<Touch> touches(const VerifyCase& verify_case, Place place);

// Steps name ranks and blocks that exist, and do what the executor and its layouts can do. False: nothing else can be
// proven.
bool check_form(VerifyCase& verify_case);
// Fills in partners; finds messages that nobody receives and receives that nobody sends to.
void match_messages(VerifyCase& verify_case);
// Steps that can be under way together do not touch the same block with one of them writing, in whatever order they
// end.
void check_overlap(VerifyCase& verify_case);
// The same for mapped memory that other ranks reach into: between conflicting accesses lies a meeting.
void check_mapped(VerifyCase& verify_case);
// Follows the contents in several orders and compares them with the goal; finds deadlocks; fills in the verdict.
void check_runs(VerifyCase& verify_case, Verdict& verdict);

}  // namespace paceline
