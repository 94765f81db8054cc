// CostModel: what messages, bytes and additions cost, and the price of a schedule by it. The same schedules that run
// are priced, by running them against each other in model time (the alpha-beta-gamma model, Hockney 1994, Thakur et al.
// 2005).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/collective/schedule.hpp"

namespace paceline {

class Communicator;

struct CostModel {
  // Measured between two processes on two cores of one machine (see bench/README.md). Seconds.
  double alpha = 0.4e-6;    // per message
  double beta = 0.09e-9;    // per byte sent through a channel and copied out
  double gamma = 0.03e-9;   // per byte reduced
  double direct = 0.06e-9;  // per byte reduced out of mapped memory, for each rank's vector
  // When ranks outnumber cores, a message costs a change of the running process, and work is done one after the other.
  double switch_cost = 8e-6;
  // Between hosts; the bytes of all ranks of a host share its link. Those of TCP on an Ethernet of 10 Gbit/s.
  double net_alpha = 30e-6;
  double net_beta = 0.8e-9;

  // One line of text for logs and back: "alpha=4e-07,beta=9e-11,…". Throws Error{invalid} on anything else.
  std::string text() const;
  static CostModel parse(const std::string& text);
};

struct Crowd {
  int ranks = 1;
  int cores = 1;                // of each host
  std::vector<int> hosts = {};  // by rank; empty: all on one

  bool on_one_host(int a, int b) const {
    return hosts.empty() || hosts[static_cast<std::size_t>(a)] == hosts[static_cast<std::size_t>(b)];
  }
  int most_on_a_host() const;
};

// Seconds until the last rank is done with a vector of `bytes`. schedule_of(rank) gives each rank's schedule.
double price(const CostModel& model, const Crowd& crowd, double bytes, const std::function<Schedule(int)>& schedule_of);

// Measures the constants over a communicator's own transport: a collective of all its ranks that takes some ten
// milliseconds and gives the same result on every rank.
CostModel measure_cost(Communicator& communicator);

}  // namespace paceline
