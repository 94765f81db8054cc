// run_hosts(n, ranks_per_host, body): runs body(endpoint) once per rank, ranks as threads of this process that believe
// to be on several hosts: those of one host share memory, the others talk through UCX over loopback. For tests.
#pragma once

#include <functional>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/fabric/hosts/hosts_transport.hpp"

namespace paceline::ucx {

struct RunHosts {
  int size = 1;
  int ranks_per_host = 1;
  LinkShape link = {};
};
void run_hosts(const RunHosts& how, const std::function<void(Endpoint&)>& body);
inline void run_hosts(int size, int ranks_per_host, const std::function<void(Endpoint&)>& body) {
  run_hosts({.size = size, .ranks_per_host = ranks_per_host}, body);
}

}  // namespace paceline::ucx
