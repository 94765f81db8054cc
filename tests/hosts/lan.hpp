// Lan: hosts made of network namespaces on a bridge, and a program that stands for ssh between them. Needs root.
//
// The stand-in does what ssh does, and no more: it joins the words of the command for a shell on the other host, in a
// session and with an environment of its own, so that neither the death nor the mark of a launcher reaches further than
// this program; what ends the command is the end of its input.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launch/command.hpp"

namespace paceline {

class Lan {
 public:
  explicit Lan(int hosts);
  ~Lan();
  Lan(const Lan&) = delete;
  Lan& operator=(const Lan&) = delete;

  // Empty, or why there is no network.
  const std::string& missing() const { return missing_; }
  // The address of host 0, 1, … Jobs are started on host 0.
  std::string ip(int host) const;
  const std::string& ssh() const { return ssh_; }
  const std::string& folder() const { return folder_; }

  // Any command on host 0, in the lan's folder.
  Command start(std::vector<std::string> words, const std::vector<std::string>& environment = {}) const;
  // `paceline run ARGUMENTS…` there, through the stand-in unless the arguments name another.
  Command run(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) const;
  // The same with --hosts and `sh -c SCRIPT`. `hosts` are numbers and counts: {{1, 2}, {2, 2}}.
  struct Share {
    int host;
    int workers;
  };
  Command run_script(const std::vector<Share>& hosts, const std::string& script, std::vector<std::string> options = {},
                     const std::vector<std::string>& environment = {}) const;
  // A host's network namespace, as /proc/PID/ns/net names it.
  std::string namespace_of(int host) const;
  // All processes on a host.
  std::vector<pid_t> processes(int host) const;

 private:
  std::string name(int host) const { return prefix_ + std::to_string(host); }
  void write_ssh();

  std::string prefix_;  // of all names, with a random part
  std::string net_;     // "10.201.7."
  int hosts_;
  std::string missing_;
  std::string folder_;
  std::string ssh_;
};

// One network for all tests of the program. Skips where namespaces cannot be made.
class HostsTest : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  static const Lan& lan() { return *lan_; }

 private:
  static Lan* lan_;
};

}  // namespace paceline
