// What the environment tells a worker, parsed and checked. The three general variables are PACELINE_RANK, PACELINE_SIZE
// and PACELINE_STORE; README.md lists all. Pure: join.cpp brings the lookup.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/fabric/address.hpp"
#include "paceline/fabric/hosts/control.hpp"
#include "paceline/fabric/hosts/link_shape.hpp"

namespace paceline {

using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// How ranks of other hosts are to be reached.
struct NetworkChoice {
  std::string device;      // name or address; empty: the one that leads to the store
  PortRange ports;         // for everything that listens
  std::string transports;  // UCX_TLS
  Duration silence = std::chrono::seconds(6);
  LinkShape link;      // to be imitated
  int split_host = 0;  // as many ranks of a machine count as a host; 0: all of them
};

struct Environment {
  Rank rank = 0;
  int size = 1;
  int servers = 0;  // processes that are servers: their ranks are size, size + 1, …
  Address store;
  std::string secret;           // empty: none
  std::optional<int> lifeline;  // set by `paceline run`: its launcher serves the store and lives as long as this pipe
  Duration join_timeout = std::chrono::seconds(60);
  NetworkChoice network;
};

// "7000-7100" or "7000". Error{invalid} that begins with `name`: the flag or variable that holds it.
PortRange parse_ports(const std::string& name, const std::string& text);

// What holds however this process was started: timeouts, network. The rest as in a job of one.
Environment read_common(const Lookup& lookup);

// nullopt when none of the three variables is set: a program started alone. Throws Error{invalid} naming the variable
// and its value when they are incomplete or make no sense.
std::optional<Environment> read_environment(const Lookup& lookup);

}  // namespace paceline
