// How quick are the tables of a parameter server? One worker and one server process for sparse tables; two workers with
// two embedded servers for a dense one, beside the allreduce of the same bytes. Run under `paceline run -n 2`; rank 0
// prints one JSON line per question.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/core/random.hpp"
#include "paceline/launch/extend.hpp"
#include "paceline/launch/join.hpp"
#include "paceline/launch/rank_threads.hpp"
#include "paceline/server/serve.hpp"
#include "paceline/server/session.hpp"
#include "paceline/server/table.hpp"

namespace paceline {
namespace {

using Seconds = std::chrono::duration<double>;

double now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Options {
  std::string question = "uniform";
  std::uint64_t rows = 10'000'000;
  std::size_t keys = 100'000;
  std::uint32_t width = 1;
  double seconds = 2;
  bool heap = false;
};

// Values where the server can reach them, as a user who wants speed has them; or not.
class Values {
 public:
  Values(Endpoint& endpoint, const Options& options, float value) : count_(options.keys * options.width) {
    if (options.heap) {
      own_.resize(count_);
    } else {
      arena_ = endpoint.allocate(count_ * sizeof(float));
    }
    std::fill(span().begin(), span().end(), value);
  }
  std::span<float> span() { return own_.empty() ? arena_.as<float>().first(count_) : std::span<float>(own_); }

 private:
  std::size_t count_;
  std::vector<float> own_;
  Arena arena_;
};

// Ranks of keys by a power law with exponent 1, by inversion of its continuous form.
std::uint64_t zipf(Random& random, std::uint64_t rows) {
  return static_cast<std::uint64_t>(std::pow(static_cast<double>(rows), random.uniform())) - 1;
}

std::vector<std::uint64_t> draw(Random& random, const Options& options) {
  std::vector<std::uint64_t> keys(options.keys);
  for (auto& key : keys)
    key = mix(options.question == "zipf" ? zipf(random, options.rows) : random.below(options.rows), 99);
  return keys;
}

// All rows are there before anything is timed.
void fill_table(Table& table, const Options& options) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t first = 0; first < options.rows; first += options.keys) {
    keys.clear();
    for (std::uint64_t i = first; i < std::min(options.rows, first + options.keys); ++i) keys.push_back(mix(i, 99));
    table.push(keys, std::vector<float>(keys.size() * options.width)).wait();
  }
}

double memcpy_seconds(std::size_t bytes) {
  std::vector<char> from(bytes, 1);
  std::vector<char> into(bytes);
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    const double start = now();
    std::memcpy(into.data(), from.data(), bytes);
    times.push_back(now() - start);
  }
  return median(times);
}

void measure_sparse(Endpoint& endpoint, Table table, const Options& options) {
  fill_table(table, options);
  Random random(5);
  std::vector<std::uint64_t> keys = draw(random, options);
  Values pushed(endpoint, options, 0.5F);
  Values pulled(endpoint, options, 0);
  std::vector<double> times;
  for (const double end = now() + options.seconds; now() < end || times.size() < 5;) {
    if (options.question != "repeated") keys = draw(random, options);
    const double start = now();
    table.push(keys, pushed.span()).wait();
    table.pull(keys, pulled.span()).wait();
    times.push_back(now() - start);
  }
  const double seconds = median(times);
  const std::size_t moved = pushed.span().size_bytes() + pulled.span().size_bytes();
  const auto bytes = static_cast<double>(moved);
  const double copy = memcpy_seconds(moved);
  std::printf(R"({"question":"%s","rows":%llu,"width":%u,"keys":%zu,"seconds":%.6f,"million_keys_per_s":%.2f,)"
              R"("gbps":%.3f,"memcpy_gbps":%.3f})"
              "\n",
              options.question.c_str(), static_cast<unsigned long long>(options.rows), options.width, keys.size(),
              seconds, static_cast<double>(keys.size()) / seconds / 1e6, bytes / seconds / 1e9, bytes / copy / 1e9);
}

void sparse(Job& job, const Options& options) {
  const Policy policy = parse_policy("async");
  if (job.rank() == 1) return serve(job.endpoint(), {.workers = {0}, .policy = policy});
  Session session(job.endpoint(), {.servers = {1}, .policy = policy});
  measure_sparse(job.endpoint(), session.open({.name = "rows", .width = options.width}), options);
  session.leave();
}

double timed(Communicator& all, double budget, const std::function<void()>& operation) {
  operation();
  std::vector<double> times;
  for (double spent = 0; spent < budget || times.size() < 5;) {
    all.barrier();
    const double start = now();
    operation();
    std::vector<double> took = {now() - start};
    all.allreduce(view(took), ReduceOp::average);
    times.push_back(took[0]);
    spent += took[0];
  }
  return median(times);
}

void dense(Job& job, const Options& options) {
  const Policy policy = parse_policy("bsp");
  const int servers = 2;
  Extension extension = extend(job, servers);
  std::vector<Rank> workers;
  std::vector<Rank> server_ranks;
  for (Rank rank = 0; rank < job.size() + servers; ++rank) (rank < job.size() ? workers : server_ranks).push_back(rank);
  RankThreads threads(std::move(extension.more), [&](Endpoint& endpoint) {
    serve(endpoint, {.workers = workers, .index = endpoint.rank() - job.size(), .servers = servers, .policy = policy});
  });
  {
    Endpoint& endpoint = *extension.own;
    Communicator all(endpoint, Group::world(job.size()));
    Session session(endpoint, {.servers = server_ranks, .worker = job.rank(), .workers = job.size(), .policy = policy});
    Table table = session.open({.name = "w", .kind = TableSpec::Kind::dense, .rows = options.rows, .rule = "sgd:0.1"});
    Arena gradient = endpoint.allocate(options.rows * sizeof(float));
    Arena parameters = endpoint.allocate(options.rows * sizeof(float));
    const auto floats = [&](Arena& arena) { return arena.as<float>().first(options.rows); };
    const double server = timed(all, options.seconds, [&] {
      TablePending push = table.push({0, options.rows}, floats(gradient));
      TablePending pull = table.pull_at({0, options.rows}, floats(parameters), session.now() + 1);
      session.clock();
      push.wait();
      pull.wait();
    });
    const double sum = timed(all, options.seconds, [&] { all.allreduce(view(floats(gradient))); });
    if (job.rank() == 0)
      std::printf(R"({"question":"dense","bytes":%llu,"server_ms":%.3f,"allreduce_ms":%.3f,"times_allreduce":%.3f})"
                  "\n",
                  static_cast<unsigned long long>(options.rows * sizeof(float)), 1e3 * server, 1e3 * sum, server / sum);
    session.leave();
  }
  extension.own->close();
  threads.join();
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("One question of script/bench server, under paceline run -n 2");
  app.add_option("--question", options.question)->check(CLI::IsMember({"uniform", "repeated", "zipf", "dense"}));
  app.add_option("--rows", options.rows, "Rows of the table; floats of a dense one");
  app.add_option("--keys", options.keys, "Of each push and pull");
  app.add_option("--width", options.width, "Floats of a row");
  app.add_option("--seconds", options.seconds);
  app.add_flag("--heap", options.heap, "Values in ordinary memory, which the server cannot reach");
  CLI11_PARSE(app, argc, argv);
  Job job = join(argc, argv);
  if (job.size() != 2) throw Error(Code::invalid, "start it with paceline run -n 2");
  options.question == "dense" ? dense(job, options) : sparse(job, options);
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  try {
    return paceline::run(argc, argv);
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "bench_server_tables: %s\n", error.what());
    return 1;
  }
}
