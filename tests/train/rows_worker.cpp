// A worker whose table is far larger than what it may hold itself. Two of these, with one server, which is a thread of
// rank 0: rank 1 trains a million rows, saves and restores them and must not grow by what they take, and a table with a
// budget refuses rows instead of growing beyond it.
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "paceline/torch/data_parallel.hpp"
#include "paceline/torch/table_embedding.hpp"
#include "paceline/torch/table_files.hpp"

namespace paceline {
namespace {

constexpr std::int64_t kRows = 1'000'000;
constexpr std::int64_t kBatch = 10'000;
constexpr int kWidth = 16;                         // with AdaGrad's state 128 bytes a row, and its key
constexpr std::int64_t kMostGrowth = 24'000'000;   // of a worker that holds 10,000 rows at a time
constexpr std::int64_t kLeastTable = 128'000'000;  // of the million

std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmRSS:") {
  }
  std::int64_t kilobytes = 0;
  status >> kilobytes;
  return kilobytes * 1024;
}

void train_rows(DataParallel& parallel, torch::optim::SGD& sgd, torch::nn::Linear& net, TableEmbedding& rows,
                std::int64_t first) {
  sgd.zero_grad();
  net->forward(rows.forward(torch::arange(first, first + kBatch))).sum().backward();
  parallel.step();
  rows.flush();
}

// Through a file, which is as large as the table.
std::string save_and_restore(TableEmbedding& rows) {
  const std::string path = fmt::format("{}/rows-{}.rows", std::filesystem::temp_directory_path().string(), getpid());
  const std::int64_t before = resident_bytes();
  TablesSnapshot snapshot({rows.table()});
  RowsFileWriter file(path);
  snapshot.write(file);
  file.publish();
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  const bool complete = restore_tables(path, {rows.table()}).empty();
  const std::int64_t growth = resident_bytes() - before;
  std::filesystem::remove(path);
  fmt::print("a file of {} bytes was written and restored by a worker that has grown by {}\n", bytes, growth);
  if (!complete || bytes < kLeastTable) return "the file lacks rows";
  return growth > kMostGrowth ? "the worker has grown with what it saved" : "";
}

// Returns a complaint, empty if all is well.
std::string work(Job& job) {
  torch::nn::Linear net(kWidth, 1);
  torch::optim::SGD sgd(net->parameters(), 1e-6);
  DataParallel parallel(job, *net, sgd, "when=async where=server:1");
  const TableSpec spec{.name = "rows", .width = kWidth, .rule = "adagrad:0.1", .init = "normal:0.1"};
  TableEmbedding rows(parallel.session(), spec);
  std::string complaint;
  train_rows(parallel, sgd, net, rows, 0);  // whatever is made once is there then
  parallel.communicator().barrier({.name = "begun"});
  const std::int64_t before = resident_bytes();
  for (std::int64_t first = kBatch; first < kRows && job.rank() == 1; first += kBatch)
    train_rows(parallel, sgd, net, rows, first);
  parallel.communicator().barrier({.name = "trained"});
  const std::int64_t growth = resident_bytes() - before;
  fmt::print("rank {} has grown by {} bytes\n", job.rank(), growth);
  if (job.rank() == 1 && growth > kMostGrowth) complaint = "the worker has grown with its table";
  if (job.rank() == 0 && growth < kLeastTable) complaint = "the table is not where its server is";

  if (job.rank() == 1 && complaint.empty()) complaint = save_and_restore(rows);
  parallel.communicator().barrier({.name = "restored"});

  TableSpec small = spec;
  small.name = "small";
  small.budget_bytes = 16'000'000;
  TableEmbedding limited(parallel.session(), small);
  std::string refusal;
  try {
    for (std::int64_t first = 0; first < kRows && job.rank() == 1; first += kBatch)
      train_rows(parallel, sgd, net, limited, first);
  } catch (const Error& error) {
    refusal = error.what();
    fmt::print("rank 1 is told: {}\n", refusal);
  }
  if (job.rank() == 1 && refusal.find("no room for new rows") == std::string::npos) complaint = "no row was refused";
  limited.forward(torch::arange(0, kBatch));  // the server lives
  parallel.communicator().barrier({.name = "end"});
  return complaint;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) try {
  auto job = paceline::join(argc, argv);
  const std::string complaint = paceline::work(job);
  if (!complaint.empty()) fmt::print(stderr, "rank {}: {}\n", job.rank(), complaint);
  return complaint.empty() ? 0 : 1;
} catch (const paceline::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
