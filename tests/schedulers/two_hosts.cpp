#include "tests/schedulers/two_hosts.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/schedulers/program.hpp"

namespace paceline {
namespace {

bool shell(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()) == 0; }

}  // namespace

TwoHosts::TwoHosts() : folder_(testing::TempDir() + "paceline_hosts_XXXXXX") {
  if (geteuid() != 0 || find_program("ip").empty() || find_program("unshare").empty()) return;
  if (mkdtemp(folder_.data()) == nullptr) return;
  name_ = "pm" + std::to_string(getpid()) + "h";
  // In the last number of its address a host has its name. Each has a folder of its own for temporary files.
  std::ofstream(login()) << "#!/bin/sh\n"
                         << "number=${1##*.}; shift\n"
                         << "mkdir -p " << folder_ << "/$number\n"
                         << "exec ip netns exec " << name_ << "$number unshare --uts sh -c \"hostname host$number; "
                         << "TMPDIR=" << folder_ << "/$number; export TMPDIR; $*\"\n";
  chmod(login().c_str(), 0700);
  ready_ = shell("ip netns add " + name_ + "1 && ip netns add " + name_ + "2 && ip link add cable netns " + name_ +
                 "1 type veth peer name cable netns " + name_ + "2");
  for (const std::string number : {"1", "2"}) {
    const std::string ip = "ip -n " + name_ + number;
    ready_ = ready_ && shell(ip + " addr add 10.213.7." + number + "/24 dev cable && " + ip + " link set cable up && " +
                             ip + " link set lo up");
  }
}

TwoHosts::~TwoHosts() {
  for (const char* number : {"1", "2"}) {
    if (!name_.empty()) shell("ip netns del " + name_ + number);
  }
  std::error_code stays;
  if (!name_.empty()) std::filesystem::remove_all(folder_, stays);
}

std::vector<std::string> TwoHosts::on_first(const std::vector<std::string>& command) const {
  std::vector<std::string> words = {login(), kAddresses[0], "exec"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace paceline
