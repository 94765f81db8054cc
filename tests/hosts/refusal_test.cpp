#include <sys/stat.h>

#include <fstream>

#include "tests/hosts/lan.hpp"

namespace paceline {
namespace {

class Refusal : public HostsTest {};

// A program that stands for the paceline of a host.
std::string fake_paceline(const Lan& lan, const std::string& script) {
  const std::string file = lan.folder() + "/other paceline";
  std::ofstream(file) << "#!/bin/sh\n" << script;
  chmod(file.c_str(), 0755);
  return file;
}

Ended run_with(const Lan& lan, const std::string& remote) {
  return lan.run_script({{1, 1}, {2, 1}}, "exit 0", {"--remote-paceline", remote}).wait();
}

TEST_F(Refusal, AHostWithoutPaceline) {
  const Ended ended = run_with(lan(), "/no/such/paceline");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(contains(ended.errors,
                       " cannot start /no/such/paceline: sh: 1: /no/such/paceline: not found; install "
                       "paceline there or say where it is with --remote-paceline"))
      << ended.errors;
}

TEST_F(Refusal, AHostWithAnotherVersion) {
  const Ended ended =
      run_with(lan(), fake_paceline(lan(), "exec 4> \"$0.told\"; echo paceline host-agent 0.0.1; exec cat >&4"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(contains(ended.errors,
                       " has paceline 0.0.1 and this is " PACELINE_VERSION ": all hosts must have the same version"))
      << ended.errors;
  // And it was not told the secret.
  for (int host = 1; host <= 2; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); }));
  std::ifstream told(lan().folder() + "/other paceline.told");
  EXPECT_TRUE(told.is_open());
  EXPECT_EQ(told.peek(), std::ifstream::traits_type::eof());
}

TEST_F(Refusal, AHostWhosePacelineKnowsNoAgents) {
  const Ended ended = run_with(lan(), fake_paceline(lan(), "echo 'paceline: host-agent was not expected' >&2; exit 2"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(contains(ended.errors,
                       "does not answer as paceline " PACELINE_VERSION " does: paceline: host-agent was not expected"))
      << ended.errors;
}

TEST_F(Refusal, AHostThatTalksNonsense) {
  const Ended ended = run_with(
      lan(), fake_paceline(lan(), "echo paceline host-agent " PACELINE_VERSION "; echo hello; exec cat >/dev/null"));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(contains(ended.errors, "does not speak as a host agent does")) << ended.errors;
}

// As a login script does that greets its user.
TEST_F(Refusal, NoiseBeforeTheGreetingIsNoReason) {
  const Ended ended = lan()
                          .run_script({{1, 1}}, "echo fine",
                                      {"--remote-paceline",
                                       fake_paceline(lan(), "echo Welcome; echo; exec " PACELINE_PROGRAM " \"$@\"")})
                          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.output, "[0] fine\n");
}

TEST_F(Refusal, AProgramThatIsNotThereNamesTheHost) {
  const Ended ended = lan().run({"--hosts", lan().ip(1) + "," + lan().ip(2), "no-such-program"}).wait();
  EXPECT_EQ(ended.exit_code, 127);
  // On either of the two, and perhaps on both at once, so that no others are left to be ended.
  const std::string start = "paceline: cannot start no-such-program on ";
  const std::string end = ": No such file or directory";
  EXPECT_TRUE(ended.errors.starts_with(start + lan().ip(1) + end) ||
              ended.errors.starts_with(start + lan().ip(2) + end))
      << ended.errors;
}

TEST_F(Refusal, AProgramForSshThatIsNotThere) {
  const Ended ended = lan().run({"--ssh", "no-such-ssh", "--hosts", lan().ip(1), "true"}).wait();
  EXPECT_EQ(ended.exit_code, 127);
  EXPECT_EQ(ended.errors, "paceline: cannot start no-such-ssh: No such file or directory\n");
}

}  // namespace
}  // namespace paceline
