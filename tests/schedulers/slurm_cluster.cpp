#include "tests/schedulers/slurm_cluster.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/schedulers/program.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string host_name() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  const std::string full = name.data();
  return full.substr(0, full.find('.'));
}

std::string user_name() {
  const passwd* entry = getpwuid(geteuid());
  return entry == nullptr ? "root" : entry->pw_name;
}

std::string make_folder() {
  std::string path = testing::TempDir() + "paceline_slurm_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) std::abort();
  chmod(path.c_str(), 0755);  // munged wants its socket to be reachable
  return path;
}

// Two ports where nobody listens.
std::array<int, 2> free_ports() {
  std::array<Descriptor, 2> sockets;
  std::array<int, 2> ports{};
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    sockets[i] = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* general = reinterpret_cast<sockaddr*>(&address);
    if (bind(sockets[i].number(), general, length) != 0) std::abort();
    if (getsockname(sockets[i].number(), general, &length) != 0) std::abort();
    ports[i] = ntohs(address.sin_port);
  }
  return ports;
}

void write_key(const std::string& path) {
  std::random_device random;
  std::ofstream key(path, std::ios::binary);
  for (int i = 0; i < 128; ++i) key.put(static_cast<char>(random()));
  key.close();
  chmod(path.c_str(), 0600);
}

}  // namespace

std::string SlurmCluster::obstacle() {
  std::string names;
  for (const char* name : {"munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "sinfo"}) {
    if (find_program(name).empty()) names += std::string(names.empty() ? "" : ", ") + name;
  }
  if (!names.empty()) return names + " not installed (munge, slurmd, slurmctld, slurm-client)";
  addrinfo* found = nullptr;
  if (getaddrinfo(host_name().c_str(), nullptr, nullptr, &found) != 0)
    return "this host's own name, " + host_name() + ", has no address, which Slurm needs (/etc/hosts)";
  freeaddrinfo(found);
  return "";
}

SlurmCluster::SlurmCluster(int tasks) : folder_(make_folder()) {
  write_configuration(tasks);
  const std::string key = folder_ + "/munge.key";
  const std::string socket = folder_ + "/munge.socket";
  write_key(key);
  // --force: the folder is below one that others may write to.
  start("munged", {"--foreground", "--force", "--key-file=" + key, "--socket=" + socket,
                   "--pid-file=" + folder_ + "/munged.pid", "--seed-file=" + folder_ + "/munged.seed"});
  if (!eventually([&] { return fs::exists(socket); })) return;
  start("slurmctld", {"-D", "-c", "-f", folder_ + "/slurm.conf"});
  start("slurmd", {"-D", "-f", folder_ + "/slurm.conf", "-N", host_name()});
  ready_ = eventually([&] { return node_is_idle(); });
}

SlurmCluster::~SlurmCluster() {
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
    daemon->signal(SIGTERM);
    const Ended ended = daemon->wait();
    if (testing::Test::HasFailure()) ADD_FAILURE() << "a daemon said: " << ended.output << ended.errors;
  }
  std::error_code stays;
  fs::remove_all(folder_, stays);
}

Command SlurmCluster::command(const std::string& program, const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {find_program(program)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return Command(words, {"SLURM_CONF=" + folder_ + "/slurm.conf"});
}

void SlurmCluster::write_configuration(int tasks) const {
  for (const char* name : {"state", "spool"}) fs::create_directory(folder_ + "/" + name);
  const std::string host = host_name();
  const auto [controller_port, node_port] = free_ports();
  std::ofstream(folder_ + "/slurm.conf") << "ClusterName=paceline\n"
                                         << "SlurmctldHost=" << host << "(127.0.0.1)\n"
                                         << "SlurmctldPort=" << controller_port << "\n"
                                         << "SlurmdPort=" << node_port << "\n"
                                         << "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n"
                                         << "SlurmUser=" << user_name() << "\n"
                                         << "SlurmdUser=" << user_name() << "\n"
                                         << "AuthType=auth/munge\n"
                                         << "CredType=cred/munge\n"
                                         << "AuthInfo=socket=" << folder_ << "/munge.socket\n"
                                         << "StateSaveLocation=" << folder_ << "/state\n"
                                         << "SlurmdSpoolDir=" << folder_ << "/spool\n"
                                         << "SlurmctldPidFile=" << folder_ << "/slurmctld.pid\n"
                                         << "SlurmdPidFile=" << folder_ << "/slurmd.pid\n"
                                         << "SlurmdParameters=config_overrides\n"
                                         << "ProctrackType=proctrack/linuxproc\n"
                                         << "TaskPlugin=task/none\n"
                                         << "JobAcctGatherType=jobacct_gather/none\n"
                                         << "SwitchType=switch/none\n"
                                         << "MpiDefault=none\n"
                                         << "ReturnToService=2\n"
                                         << "KillWait=2\n"
                                         << "SchedulerParameters=batch_sched_delay=0,sched_interval=1\n"
                                         << "NodeName=" << host << " NodeAddr=127.0.0.1 CPUs=" << tasks << "\n"
                                         << "PartitionName=test Nodes=ALL Default=YES MaxTime=10 State=UP\n";
}

void SlurmCluster::start(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {find_program(program)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  daemons_.emplace_back(words);
}

bool SlurmCluster::node_is_idle() const {
  return contains(command("sinfo", {"--noheader", "--format=%t"}).wait().output, "idle");
}

void SlurmTest::SetUp() {
  forgive_leaks_of_pmix();
  const std::string obstacle = SlurmCluster::obstacle();
  if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  cluster_.emplace(tasks_);
  ASSERT_TRUE(cluster_->ready());
}

}  // namespace paceline
