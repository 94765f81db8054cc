#include "paceline/cli/fetch_catalogue.hpp"

#include <fmt/format.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// Addresses as torchvision 0.20 has them; the MD5 sums that it publishes belong to the same files as these SHA-256
// sums, which TensorFlow Datasets and others publish.
FetchSet mnist() {
  return {
      .name = "mnist",
      .from = "https://ossci-datasets.s3.amazonaws.com/mnist/",
      .files = {
          {"train-images-idx3-ubyte.gz", 9'912'422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
          {"train-labels-idx1-ubyte.gz", 28'881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
          {"t10k-images-idx3-ubyte.gz", 1'648'877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
          {"t10k-labels-idx1-ubyte.gz", 4'542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}};
}

FetchSet fashion() {
  return {
      .name = "fashion",
      .from = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
      .files = {
          {"train-images-idx3-ubyte.gz", 26'421'880,
           "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
          {"train-labels-idx1-ubyte.gz", 29'515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
          {"t10k-images-idx3-ubyte.gz", 4'422'102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
          {"t10k-labels-idx1-ubyte.gz", 5'148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}};
}

FetchSet cifar10() {
  constexpr std::uint64_t kBatch = 10'000 * 3'073;
  return {.name = "cifar10",
          .from = "https://www.cs.toronto.edu/~kriz/",
          .files = {{"cifar-10-binary.tar.gz", 170'052'171,
                     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
          .packed = {{"data_batch_1.bin", kBatch},
                     {"data_batch_2.bin", kBatch},
                     {"data_batch_3.bin", kBatch},
                     {"data_batch_4.bin", kBatch},
                     {"data_batch_5.bin", kBatch},
                     {"test_batch.bin", kBatch}}};
}

// One row for each set: a new one is a new row.
constexpr FetchSet (*kSets[])() = {mnist, fashion, cifar10};

}  // namespace

FetchSet find_fetch_set(std::string_view name) {
  for (const auto& set : kSets) {
    if (FetchSet found = set(); found.name == name) return found;
  }
  throw Error(Code::invalid, fmt::format("'{}' cannot be fetched: there are {}", name, fetch_names()));
}

std::string fetch_names() {
  std::string names;
  for (const auto& set : kSets) names += fmt::format("{}{}", names.empty() ? "" : ", ", set().name);
  return names;
}

}  // namespace paceline
