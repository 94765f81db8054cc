// ServerShare: the server processes of a job that one host runs. A value.
#pragma once

#include <string>
#include <vector>

namespace paceline {

struct ServerShare {
  std::vector<std::string> command;
  std::vector<int> own;  // their numbers, from 0; a server's rank is its number plus that of the workers
  int all = 0;           // on all hosts
};

}  // namespace paceline
