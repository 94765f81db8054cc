// Gloo's allreduce between processes over TCP: on loopback, the only transport it has between two processes of one
// host, or, with --hosts, between network namespaces, which each rank enters before it starts Gloo.
// --algorithm: ring or bcube (default: what Gloo chooses, which is ring), or, of its older classes, halving-doubling or
// ring-chunked.
#include <fcntl.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "bench/contestant.hpp"

namespace {

using namespace paceline::bench;
using paceline::Code;
using paceline::Error;
using Algorithm = gloo::AllreduceOptions::Algorithm;

constexpr int kMaxRanks = 64;

// Shared by the forked ranks. Averages go through here and not through Gloo, so that its barrier, which takes as long
// as a small allreduce, stays out of the figures.
struct Board {
  std::atomic<int> arrived{0};
  std::atomic<unsigned> generation{0};
  double times[kMaxRanks] = {};

  void barrier(int ranks) {
    const unsigned before = generation.load();
    if (arrived.fetch_add(1) + 1 == ranks) {
      arrived.store(0);
      generation.store(before + 1);
    }
    while (generation.load() == before) std::this_thread::yield();
  }
};

struct Job {
  Options options;
  std::string folder;  // where the ranks find each other; gone as soon as they have
  Board* board = nullptr;
};

Algorithm parse_algorithm(const std::string& name) {
  if (name == "default") return Algorithm::UNSPECIFIED;
  if (name == "ring") return Algorithm::RING;
  if (name == "bcube") return Algorithm::BCUBE;
  throw Error(Code::invalid,
              "Gloo has no algorithm '" + name + "': choose default, ring, bcube, halving-doubling or ring-chunked");
}

// The address of this rank, inside its namespace if it has one.
std::string enter_host(const Options& options, int rank) {
  if (options.hosts.empty()) return "127.0.0.1";
  const std::string& host = options.hosts.at(static_cast<std::size_t>(rank));
  const std::size_t equals = host.find('=');
  if (equals == std::string::npos) throw Error(Code::invalid, "'" + host + "' is not NAMESPACE=ADDRESS");
  const std::string path = "/run/netns/" + host.substr(0, equals);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) < 0) throw paceline::system_error("cannot enter " + path, errno);
  close(file);
  return host.substr(equals + 1);
}

std::shared_ptr<gloo::Context> connect(const Job& job, int rank) {
  gloo::rendezvous::FileStore store(job.folder);
  auto device = gloo::transport::tcp::CreateDevice(enter_host(job.options, rank).c_str());
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, job.options.ranks);
  context->connectFullMesh(store, device);
  job.board->barrier(job.options.ranks);
  if (rank == 0) std::filesystem::remove_all(job.folder);
  return context;
}

template <class Class>
std::function<void()> prepare_class(const std::shared_ptr<gloo::Context>& context, std::span<float> data) {
  const std::vector<float*> pointers = {data.data()};
  auto algorithm = std::make_shared<Class>(context, pointers, static_cast<int>(data.size()));
  return [algorithm] { algorithm->run(); };
}

std::function<void()> prepare(const std::shared_ptr<gloo::Context>& context, const std::string& name,
                              std::span<float> data) {
  if (name == "halving-doubling") return prepare_class<gloo::AllreduceHalvingDoubling<float>>(context, data);
  if (name == "ring-chunked") return prepare_class<gloo::AllreduceRingChunked<float>>(context, data);
  auto options = std::make_shared<gloo::AllreduceOptions>(context);
  options->setAlgorithm(parse_algorithm(name));
  options->setOutput(data.data(), data.size());
  options->setReduceFunction([](void* to, const void* a, const void* b, size_t n) { gloo::sum<float>(to, a, b, n); });
  return [options] { gloo::allreduce(*options); };
}

double average(const Job& job, int rank, double value) {
  const int ranks = job.options.ranks;
  job.board->times[rank] = value;
  job.board->barrier(ranks);
  double sum = 0;
  for (int i = 0; i < ranks; ++i) sum += job.board->times[i];
  job.board->barrier(ranks);
  return sum / ranks;
}

int run_rank(const Job& job, int rank) {
  try {
    const std::string& algorithm = job.options.algorithm;
    const auto context = connect(job, rank);
    run_points(
        "gloo", job.options, rank, [&](std::span<float> data) { return prepare(context, algorithm, data); },
        [&](double value) { return average(job, rank, value); });
    job.board->barrier(job.options.ranks);  // whoever closes first would break the others' last operation
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// Forked before Gloo starts its threads. The children die with the parent, however that ends.
pid_t start_rank(const Job& job, int rank) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::_Exit(getppid() == parent ? run_rank(job, rank) : 1);
}

int wait_for(const std::vector<pid_t>& ranks) {
  for (std::size_t left = ranks.size(); left > 0; --left) {
    int status = 0;
    if (wait(&status) >= 0 && status == 0) continue;
    for (const pid_t rank : ranks) kill(rank, SIGKILL);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Job job{.options = parse_options(argc, argv), .folder = "/tmp/bench_gloo.XXXXXX"};
  if (!job.options.hosts.empty() && job.options.hosts.size() != static_cast<std::size_t>(job.options.ranks)) {
    std::fprintf(stderr, "--hosts names %zu hosts for %d ranks\n", job.options.hosts.size(), job.options.ranks);
    return 2;
  }
  if (mkdtemp(job.folder.data()) == nullptr) throw paceline::system_error("cannot make a folder in /tmp", errno);
  void* shared = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw paceline::system_error("cannot map a shared page", errno);
  job.board = new (shared) Board;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < job.options.ranks; ++rank) ranks.push_back(start_rank(job, rank));
  const int result = wait_for(ranks);
  std::filesystem::remove_all(job.folder);
  return result;
}
