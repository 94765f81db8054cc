// What an outside project does first: includes installed headers, links the installed libraries, and runs.
#include <cstdio>
#include <cstdlib>

#include "paceline/core/group.hpp"

int main() {
  const auto group = paceline::Group::world(4);
  if (group.size() != 4 || group.index_of(3) != 3) return EXIT_FAILURE;
  std::puts("an outside program uses paceline");
}
