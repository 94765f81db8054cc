#include "paceline/launch/lifeline.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

TEST(Lifeline, KillsTheProcessWhenTheOtherEndCloses) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto outlive_launcher = [] {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const Lifeline lifeline(ends[0]);
    close(ends[1]);
    pause();
  };
  EXPECT_EXIT(outlive_launcher(), testing::KilledBySignal(SIGKILL), "");
}

TEST(Lifeline, MayBeLetGoWhileTheLauncherLives) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  { const Lifeline lifeline(ends[0]); }
  close(ends[1]);
}

TEST(Lifeline, IsNotInheritedByChildrenOfTheWorker) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Lifeline lifeline(ends[0]);
  EXPECT_EQ(fcntl(ends[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(Lifeline, ADescriptorThatIsNoPipeIsRefused) {
  const int null = open("/dev/null", O_RDONLY);
  EXPECT_THROW(Lifeline{null}, Error);
  close(null);
  EXPECT_THROW(Lifeline{null}, Error);
}

}  // namespace
}  // namespace paceline
