// Where failure_test.cpp and lend_test.cpp run. A test program brings its own backends().
#pragma once

#include <vector>

#include "paceline/collective/mismatch_test_support.hpp"

namespace paceline {

struct Backend {
  const char* name;
  collective_test::RunRanks run;
};
const std::vector<Backend>& backends();

}  // namespace paceline
