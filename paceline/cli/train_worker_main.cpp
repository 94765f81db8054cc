// `paceline-train CONFIG`: one worker of `paceline train`, or of `paceline predict`; CONFIG is the configuration
// itself. A program of its own, so that `paceline` does not load LibTorch for everything else it does.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "paceline/cli/train_worker.hpp"
#include "paceline/core/error.hpp"
#include "paceline/launch/join.hpp"
#include "paceline/torch/predictor.hpp"
#include "paceline/torch/start_together.hpp"
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

bool is_about_another(paceline::Job& job, const Error& error) {
  return error.rank() >= 0 && error.rank() < job.size() && error.rank() != job.rank();
}

// One worker tells of a failure that concerns all: the one it happened to, or, if that has died, the lowest that is
// left. One that has left in good order has told of it before.
bool speaks(paceline::Job& job, const Error& error) {
  const auto gone = [&](paceline::Rank rank) { return rank != job.rank() && job.endpoint().gone(rank); };
  if (!is_about_another(job, error)) return true;
  if (!job.endpoint().lost(error.rank())) return false;
  for (paceline::Rank rank = 0; rank < job.rank(); ++rank) {
    if (!gone(rank)) return false;
  }
  return true;
}

// mpirun ends the others when one has ended with an error: the one who tells of it goes first.
void leave_after(paceline::Job& job, paceline::Rank speaker) {
  paceline::Endpoint& endpoint = job.endpoint();
  const paceline::TimePoint deadline = endpoint.clock().now() + std::chrono::seconds(1);
  while (!endpoint.gone(speaker) && endpoint.clock().now() < deadline) {
    if (!endpoint.progress()) endpoint.idle(deadline);
  }
}

// A server's rank comes after those of the workers. That it is lost, every worker says that needs it.
bool is_about_server(const std::optional<paceline::Job>& job, const Error& error) {
  return job && error.rank() >= job->size();
}

int fail(std::optional<paceline::Job>& job, const Error& error) {
  const bool own = !job || !is_about_another(*job, error);
  if (!job || speaks(*job, error)) fmt::print(stderr, "paceline: {}\n", error.what());
  if (!own) leave_after(*job, error.rank());
  // What is wrong with the input, or with the disk, is so for all.
  if (error.code() == Code::invalid) return paceline::kRefusedExit;
  if (error.code() == Code::system) return paceline::kTroubleExit;
  return own && !is_about_server(job, error) ? 1 : paceline::kFollowerExit;
}

int work(std::optional<paceline::Job>& job, int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: paceline-train CONFIG\nThis is a worker of `paceline train`, which starts it.\n");
    return paceline::kRefusedExit;
  }
  const auto json = nlohmann::json::parse(argv[1], nullptr, false);
  if (json.is_object() && json.contains(paceline::kPredict)) {
    const paceline::PredictConfig config = paceline::predict_config_from(json[paceline::kPredict]);
    job.emplace(paceline::join(argc, argv));
    paceline::predict(*job, config);
    return 0;
  }
  const std::string refusal = json.is_object() ? json.value(paceline::kRefused, "") : "";
  paceline::TrainConfig config{.workers = 0};
  if (refusal.empty()) config = paceline::train_config_from(json);
  job.emplace(paceline::join(argc, argv));
  if (config.workers == 0) paceline::refuse_together(*job, refusal);
  const int signal = paceline::train(*job, config);
  return signal == 0 ? 0 : paceline::kSignalExit + signal;
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
