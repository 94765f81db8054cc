#include "tests/hosts/lan.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace paceline {
namespace {

namespace fs = std::filesystem;

int shell(const std::string& command) { return std::system((command + " 2>/dev/null >/dev/null").c_str()); }

std::string own_namespace() { return fs::read_symlink("/proc/self/ns/net"); }

}  // namespace

Lan::Lan(int hosts) : hosts_(hosts) {
  std::random_device random;
  prefix_ = "pl" + std::to_string(random() % 1'000'000) + "h";
  net_ = "10." + std::to_string(random() % 100 + 100) + "." + std::to_string(random() % 256) + ".";
  folder_ = fs::temp_directory_path() / ("paceline_" + prefix_);
  fs::create_directories(folder_);
  write_ssh();
  const std::string bridge = prefix_ + "br";
  std::string script = "set -e; ip netns add " + bridge + "; ip -n " + bridge + " link add br0 type bridge; ip -n " +
                       bridge + " link set br0 up; ";
  for (int host = 0; host < hosts; ++host) {
    const std::string port = "p" + std::to_string(host);
    script += "ip netns add " + name(host) + "; ip link add eth0 netns " + name(host) + " type veth peer name " + port +
              " netns " + bridge + "; ip -n " + bridge + " link set " + port + " master br0 up; ip -n " + name(host) +
              " addr add " + ip(host) + "/24 dev eth0; ip -n " + name(host) + " link set eth0 up; ip -n " + name(host) +
              " link set lo up; ";
  }
  if (shell(script) != 0) missing_ = "network namespaces cannot be made here (that takes root and `ip netns`)";
}

Lan::~Lan() {
  for (int host = 0; host < hosts_; ++host) {
    for (const pid_t process : processes(host)) kill(process, SIGKILL);
    shell("ip netns del " + name(host));
  }
  shell("ip netns del " + prefix_ + "br");
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string Lan::ip(int host) const { return net_ + std::to_string(host + 1); }

void Lan::write_ssh() {
  ssh_ = folder_ + "/reach";
  std::ofstream(ssh_) << "#!/bin/sh\n"
                         "host=$1; shift\n"
                         "number=$((${host##*.} - 1))\n"
                         "space="
                      << prefix_
                      << "$number\n"
                         "if [ ! -e /var/run/netns/$space ]; then\n"
                         "  echo 'reach: looking for the host' >&2\n"
                         "  echo \"reach: connect to host $host port 22: No route to host\" >&2\n"
                         "  exit 255\n"
                         "fi\n"
                         "exec 3<&0\n"
                         "setsid --wait ip netns exec $space env -i --default-signal PATH=\"$PATH\" HOME=/ "
                         "ON_HOST=$number sh -c \"$*\" <&3 &\n"
                         "wait $!\n";
  chmod(ssh_.c_str(), 0755);
}

Command Lan::start(std::vector<std::string> words, const std::vector<std::string>& environment) const {
  words.insert(words.begin(), {"/bin/sh", "-c", "cd \"$0\" && exec ip netns exec \"$@\"", folder_, name(0)});
  return Command(words, environment);
}

Command Lan::run(std::vector<std::string> arguments, const std::vector<std::string>& environment) const {
  if (std::find(arguments.begin(), arguments.end(), "--ssh") == arguments.end())
    arguments.insert(arguments.begin(), {"--ssh", ssh_});
  arguments.insert(arguments.begin(), {PACELINE_PROGRAM, "run"});
  return start(arguments, environment);
}

Command Lan::run_script(const std::vector<Share>& hosts, const std::string& script, std::vector<std::string> options,
                        const std::vector<std::string>& environment) const {
  std::string list;
  for (const Share& share : hosts)
    list += (list.empty() ? "" : ",") + ip(share.host) + ":" + std::to_string(share.workers);
  options.insert(options.begin(), {"--hosts", list});
  options.insert(options.end(), {"sh", "-c", script});
  return run(std::move(options), environment);
}

std::string Lan::namespace_of(int host) const {
  struct stat status = {};
  stat(("/var/run/netns/" + name(host)).c_str(), &status);
  return "net:[" + std::to_string(status.st_ino) + "]";
}

std::vector<pid_t> Lan::processes(int host) const {
  std::vector<pid_t> found;
  const std::string space = namespace_of(host);
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; entry != end; entry.increment(ignored)) {
    const pid_t process = std::atoi(entry->path().filename().c_str());
    if (process <= 1 || gone(process)) continue;
    const fs::path own = fs::read_symlink(entry->path() / "ns/net", ignored);
    if (!ignored && own == space && own != own_namespace()) found.push_back(process);
  }
  return found;
}

Lan* HostsTest::lan_ = nullptr;

void HostsTest::SetUpTestSuite() { lan_ = new Lan(3); }

void HostsTest::TearDownTestSuite() {
  delete lan_;
  lan_ = nullptr;
}

void HostsTest::SetUp() {
  if (!lan().missing().empty()) GTEST_SKIP() << lan().missing();
}

}  // namespace paceline
