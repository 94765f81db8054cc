#include "paceline/torch/replicas.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/serialize.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <typeinfo>

#define XXH_INLINE_ALL
#include <cxxabi.h>
#include <xxhash.h>

#include "paceline/torch/tensor_collectives.hpp"

namespace paceline {
namespace {

std::vector<NamedTensor> distinct(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  std::vector<NamedTensor> found;
  std::set<const void*> seen;
  for (const auto& item : tensors) {
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
      found.push_back({item.key(), item.value()});
    }
  }
  return found;
}

std::string form_of(const char* kind, const NamedTensor& item) {
  const torch::Tensor& t = item.tensor;
  return fmt::format("{} '{}' {} [{}]{}", kind, item.name, toString(t.scalar_type()), fmt::join(t.sizes(), ", "),
                     t.requires_grad() || std::string_view(kind) == "buffer" ? "" : " frozen");
}

std::string class_name(const torch::optim::Optimizer& optimizer) {
  int status = 0;
  const char* mangled = typeid(optimizer).name();
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         std::free);
  return name == nullptr ? mangled : name.get();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first line in which two descriptions differ, of each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  const auto left = lines_of(a);
  const auto right = lines_of(b);
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::string x = i < left.size() ? left[i] : "nothing more";
    const std::string y = i < right.size() ? right[i] : "nothing more";
    if (x != y) return {x, y};
  }
  return {};
}

// LibTorch 1.13 writes the groups' options with the optimizer but does not read them again.
std::string options_key(std::size_t group) { return fmt::format("options of group {}", group); }

std::uint64_t hash_of(const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  return XXH3_64bits(dense.data_ptr(), dense.nbytes());
}

}  // namespace

std::vector<NamedTensor> distinct_parameters(const torch::nn::Module& model) {
  return distinct(model.named_parameters());
}
std::vector<NamedTensor> distinct_buffers(const torch::nn::Module& model) { return distinct(model.named_buffers()); }

void compare_models(Communicator& communicator, const torch::nn::Module& model,
                    const torch::optim::Optimizer& optimizer) {
  std::string mine;
  for (const NamedTensor& item : distinct_parameters(model)) mine += form_of("parameter", item) + "\n";
  for (const NamedTensor& item : distinct_buffers(model)) mine += form_of("buffer", item) + "\n";
  mine += fmt::format("optimizer {}\n", class_name(optimizer));
  const auto all = allgather(communicator, mine, {.name = "the model's form"});
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const auto [first, other] = first_difference(all[0], all[static_cast<std::size_t>(rank)]);
    if (first.empty()) continue;
    const Rank culprit = communicator.group().at(rank);
    throw Error(Code::mismatch, culprit,
                fmt::format("the ranks have different models: {} has {}, {} has {}",
                            communicator.endpoint().describe(communicator.group().at(0)), first,
                            communicator.endpoint().describe(culprit), other));
  }
}

std::string optimizer_bytes(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive own;
  optimizer.save(own);
  archive.write("optimizer", own);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options;
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(options_key(i), options);
  }
  std::ostringstream stream;
  archive.save_to(stream);
  return std::move(stream).str();
}

void load_optimizer(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  torch::serialize::InputArchive own;
  archive.read("optimizer", own);
  optimizer.load(own);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(options_key(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

void broadcast_optimizer(Communicator& communicator, torch::optim::Optimizer& optimizer) {
  if (communicator.size() == 1) return;
  std::string bytes = communicator.rank() == 0 ? optimizer_bytes(optimizer) : std::string();
  broadcast(communicator, bytes, 0, {.name = "the optimizer"});
  if (communicator.rank() != 0) load_optimizer(optimizer, bytes);
}

void compare_contents(Communicator& communicator, const std::vector<NamedTensor>& tensors, std::int64_t step) {
  const auto n = static_cast<std::size_t>(communicator.size());
  if (n == 1 || tensors.empty()) return;
  std::vector<std::int64_t> mine;
  for (const NamedTensor& item : tensors) mine.push_back(static_cast<std::int64_t>(hash_of(item.tensor)));
  std::vector<std::int64_t> all(n * mine.size());
  communicator.allgather(view(mine), view(all), {.name = "checksums"});
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::map<std::int64_t, int> votes;
    for (std::size_t r = 0; r < n; ++r) ++votes[all[r * mine.size() + t]];
    if (votes.size() == 1) continue;
    std::int64_t right = all[t];
    for (const auto& [hash, count] : votes) {
      if (count > votes[right]) right = hash;
    }
    std::size_t culprit = 0;
    while (all[culprit * mine.size() + t] == right) ++culprit;
    const Rank rank = communicator.group().at(static_cast<int>(culprit));
    throw Error(
        Code::unsound, rank,
        fmt::format("the replicas have drifted apart: after step {} parameter '{}' of {} is not that of {}", step,
                    tensors[t].name, communicator.endpoint().describe(rank), n == 2 ? "rank 0" : "most other ranks"));
  }
}

}  // namespace paceline
