// `paceline-train CONFIG`: one worker of `paceline train`. A program of its own, so that `paceline` does not load
// LibTorch for everything else it does.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "paceline/cli/train_worker.hpp"
#include "paceline/core/error.hpp"
#include "paceline/launch/join.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/torch/trainer.hpp"

namespace {

using paceline::Code;
using paceline::Error;

// Every step allocates and frees the same large tensors. Left to itself, malloc hands them back to the kernel each time
// and pays for fresh, zeroed pages in the next step.
void keep_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
}

// One worker tells of a failure that concerns all: the one it happened to, or, if that has died, the lowest that is
// left. One that has left in good order has told of it before.
bool speaks(paceline::Job& job, const Error& error) {
  const auto gone = [&](paceline::Rank rank) { return rank != job.rank() && job.endpoint().gone(rank); };
  if (error.rank() >= 0 && error.rank() < job.size() && !gone(error.rank())) return error.rank() == job.rank();
  if (error.rank() == paceline::kNoRank) return true;
  if (error.code() == Code::peer_lost && !job.endpoint().lost(error.rank())) return false;
  for (paceline::Rank rank = 0; rank < job.rank(); ++rank) {
    if (!gone(rank)) return false;
  }
  return true;
}

int fail(std::optional<paceline::Job>& job, const Error& error) {
  const bool own = !job || error.rank() == paceline::kNoRank || error.rank() == job->rank();
  if (!job || speaks(*job, error)) fmt::print(stderr, "paceline: {}\n", error.what());
  if (!own) return paceline::kFollowerExit;
  return error.code() == Code::invalid || error.code() == Code::system ? 2 : 1;
}

int work(std::optional<paceline::Job>& job, int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: paceline-train CONFIG\nThis is a worker of `paceline train`, which starts it.\n");
    return 2;
  }
  const auto json = nlohmann::json::parse(paceline::read_file(argv[1]), nullptr, false);
  const paceline::TrainConfig config = paceline::train_config_from(json);
  job.emplace(paceline::join(argc, argv));
  paceline::train(*job, config);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  std::optional<paceline::Job> job;
  int code = 1;
  try {
    code = work(job, argc, argv);
  } catch (const Error& error) {
    code = fail(job, error);
  } catch (const std::exception& error) {  // LibTorch's own, say: out of memory
    fmt::print(stderr, "paceline: rank {}: {}\n", job ? job->rank() : 0, error.what());
  }
  if (job) job->endpoint().close();
  std::fflush(nullptr);
  // Not return: LibTorch takes a quarter of a second to tear down what the kernel frees at once.
  _exit(code);
}
