// Further ranks and their tables where the workers are on two hosts.
#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

class Extend : public HostsTest {};

TEST_F(Extend, ServersAreThreadsOfWorkersOnBothHosts) {
  const Ended ended =
      lan()
          .run({"--hosts", lan().ip(1) + ":2," + lan().ip(2) + ":1", "--no-prefix", PACELINE_EXTEND_WORKER, "4"})
          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(sorted_lines(ended.output),
            (std::vector<std::string>{"rank 0 of 7 holds 2 more, sum 18", "rank 1 of 7 holds 1 more, sum 18",
                                      "rank 2 of 7 holds 1 more, sum 18"}));
}

}  // namespace
}  // namespace paceline
