// What the tests of DataParallel share: small nets, ranks as threads, a reference that works each rank's share off in
// one process.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <mutex>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/fabric/run_ranks.hpp"
#include "paceline/fabric/shm/shm.hpp"
#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/tensor_collectives.hpp"

namespace paceline {

struct SmallNetImpl : torch::nn::Module {
  SmallNetImpl()
      : first(register_module("first", torch::nn::Linear(6, 16))),
        second(register_module("second", torch::nn::Linear(16, 16))),
        last(register_module("last", torch::nn::Linear(16, 3))) {}
  torch::Tensor forward(torch::Tensor x) { return last(torch::tanh(second(torch::relu(first(x))))); }
  torch::nn::Linear first, second, last;
};
TORCH_MODULE(SmallNet);

// Rank r's batch of step s, of eight examples.
inline torch::Tensor inputs(int rank, int step, torch::ScalarType type = torch::kFloat) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * step + rank));
  return torch::rand({8, 6}, generator, torch::TensorOptions().dtype(torch::kDouble)).to(type);
}

inline torch::Tensor loss_of(SmallNet& net, const torch::Tensor& x) {
  return net(x).pow(2).mean() + net(x).abs().mean();
}

// Seeding is global, so ranks as threads take turns, whatever they make.
inline std::mutex& seeding() {
  static std::mutex mutex;
  return mutex;
}

// A net of its own per call: the same for the same seed.
template <class Net, class... Arguments>
Net make_seeded(std::uint64_t seed, Arguments... arguments) {
  const std::lock_guard lock(seeding());
  torch::manual_seed(seed);
  return Net(arguments...);
}

inline SmallNet make_net(std::uint64_t seed = 1, torch::ScalarType type = torch::kFloat) {
  SmallNet net = make_seeded<SmallNet>(seed);
  net->to(type);
  return net;
}

inline std::vector<torch::Tensor> copies(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> result;
  for (const torch::Tensor& tensor : tensors) result.push_back(tensor.detach().clone());
  return result;
}

inline bool same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return true;
}

using RankBody = std::function<void(Endpoint&)>;
inline void run_shm_ranks(int n, const RankBody& body) { run_ranks(shm::make_shm_thread_endpoints(n), body); }

// The sentence of the Error that `body` throws; empty if it throws none.
inline std::string sentence_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace paceline
