// Gloo's allreduce between processes over loopback TCP, the only transport it has between two processes of one host.
// --algorithm: ring or bcube (default: what Gloo chooses, which is ring).
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
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
  throw Error(Code::invalid, "Gloo has no algorithm '" + name + "': choose default, ring or bcube");
}

std::shared_ptr<gloo::Context> connect(const Job& job, int rank) {
  gloo::rendezvous::FileStore store(job.folder);
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, job.options.ranks);
  context->connectFullMesh(store, device);
  job.board->barrier(job.options.ranks);
  if (rank == 0) std::filesystem::remove_all(job.folder);
  return context;
}

auto prepare(const std::shared_ptr<gloo::Context>& context, Algorithm algorithm, std::span<float> data) {
  auto options = std::make_unique<gloo::AllreduceOptions>(context);
  options->setAlgorithm(algorithm);
  options->setOutput(data.data(), data.size());
  options->setReduceFunction([](void* to, const void* a, const void* b, size_t n) { gloo::sum<float>(to, a, b, n); });
  return [options = std::move(options)] { gloo::allreduce(*options); };
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
    const Algorithm algorithm = parse_algorithm(job.options.algorithm);
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
