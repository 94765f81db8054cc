#include "paceline/cli/bench_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/cli/collective_bench.hpp"
#include "paceline/cli/measure.hpp"
#include "paceline/cli/run_command.hpp"
#include "paceline/launch/join.hpp"
#include "paceline/launch/launcher.hpp"

namespace paceline {
namespace {

struct BenchArguments {
  BenchOptions options;
  std::string bytes = "1KiB:256MiB";
  std::string segment = fmt::format("{}KiB", BenchOptions{}.segment_bytes >> 10);
  int ranks = 2;
  bool json = false;
};

// The same command again, once per rank. A worker finds itself in a job and measures.
int start_workers(const BenchArguments& arguments) {
  RunOptions run_options;
  run_options.command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                         "bench",
                         std::string(name(arguments.options.op)),
                         "--bytes",
                         arguments.bytes,
                         "--algorithm",
                         arguments.options.algorithm,
                         "--memory",
                         arguments.options.memory,
                         "--seconds",
                         fmt::format("{}", arguments.options.seconds),
                         "--segment",
                         arguments.segment,
                         "--tensors",
                         fmt::format("{}", arguments.options.tensors)};
  if (arguments.json) run_options.command.push_back("--json");
  if (arguments.options.handle) run_options.command.push_back("--handle");
  run_options.environment = own_environment();
  run_options.workers = arguments.ranks;
  run_options.prefix = false;
  return run(run_options);
}

void print_json(const BenchOptions& options, const BenchPoint& point) {
  const nlohmann::ordered_json line = {{"op", name(options.op)},
                                       {"contestant", "paceline"},
                                       {"algorithm", point.algorithm},
                                       {"memory", options.memory},
                                       {"ranks", point.ranks},
                                       {"bytes", point.bytes},
                                       {"tensors", options.tensors},
                                       {"median_us", point.timing.median_us},
                                       {"mad_us", point.timing.mad_us},
                                       {"p99_us", point.timing.p99_us},
                                       {"gbps", gbps(point.bytes, point.timing.median_us)}};
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

void print_header(const BenchOptions& options, int ranks) {
  fmt::print("{} of f32, {} ranks, {} memory{}{}; time per {}, median over batches\n", name(options.op), ranks,
             options.memory, options.tensors > 1 ? fmt::format(", {} tensors", options.tensors) : "",
             options.handle ? ", started and waited for" : "", options.tensors > 1 ? "buffer" : "operation");
  fmt::print("{:>10}  {:<16} {:>12} {:>10} {:>12} {:>9}\n", "bytes", "algorithm", "median µs", "± MAD", "p99 µs",
             "GB/s");
}

void print_row(const BenchPoint& point) {
  fmt::print("{:>10}  {:<16} {:>12.2f} {:>10.2f} {:>12.2f} {:>9.3f}\n", format_bytes(point.bytes), point.algorithm,
             point.timing.median_us, point.timing.mad_us, point.timing.p99_us,
             gbps(point.bytes, point.timing.median_us));
  std::fflush(stdout);
}

int work(const BenchArguments& arguments) {
  std::string program = "paceline";
  char* argv[] = {program.data(), nullptr};
  Job job = join(1, argv);
  if (job.rank() == 0 && !arguments.json) print_header(arguments.options, job.size());
  bench_collective(job.endpoint(), arguments.options, [&](const BenchPoint& point) {
    if (job.rank() != 0) return;
    arguments.json ? print_json(arguments.options, point) : print_row(point);
  });
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<BenchArguments>();  // shared by the callback, which outlives this function
  auto op = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("bench", "Time a collective operation on this machine");
  command->add_option("operation", *op, "allreduce, allgather, broadcast or alltoall")
      ->required()
      ->check(CLI::IsMember({"allreduce", "allgather", "broadcast", "alltoall"}));
  command->add_option("-n,--ranks", arguments->ranks, "Number of ranks, each a process")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--bytes", arguments->bytes, "Sizes of a rank's buffer: 1KiB:256MiB doubles, 1KiB,3MiB lists")
      ->capture_default_str();
  command->add_option("--algorithm", arguments->options.algorithm, "auto, or one by name")->capture_default_str();
  command->add_option("--memory", arguments->options.memory, "Where the buffers are")
      ->check(CLI::IsMember({"arena", "heap"}))
      ->capture_default_str();
  command->add_option("--seconds", arguments->options.seconds, "Time budget per size")
      ->check(CLI::Range(0.001, 600.0))
      ->capture_default_str();
  command->add_option("--segment", arguments->segment, "Segments into which a long operation is cut")
      ->capture_default_str();
  command
      ->add_option("--tensors", arguments->options.tensors, "Cut the buffer into so many, with an operation for each")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--handle", arguments->options.handle, "Start and wait instead of the blocking call");
  command->add_flag("--json", arguments->json, "One JSON line per size instead of a table");
  command->callback([arguments, op, &exit_code] {
    arguments->options.op = collective_named(*op);
    arguments->options.bytes = parse_sizes(arguments->bytes);
    arguments->options.segment_bytes = parse_size(arguments->segment);
    check_bench_options(arguments->options);
    exit_code = std::getenv("PACELINE_RANK") != nullptr ? work(*arguments) : start_workers(*arguments);
  });
}

}  // namespace paceline
