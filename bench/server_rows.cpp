// How quick is the storage of a parameter server alone? One thread, rows resident, lists of keys: add, then read the
// same list. Verifies first; prints one JSON line per point, medians over the rounds.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "paceline/cli/measure.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/server/sparse_rows.hpp"

namespace {

using paceline::Random;
using paceline::SparseRows;
using Keys = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

struct Options {
  std::uint64_t rows = 10'000'000;
  std::size_t keys = 100'000;
  std::size_t rounds = 100;
  std::string rule = "add";
  bool wide = true;
};

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("How quick the rows of a parameter server are added to and read: one thread, one JSON line per point");
  app.add_option("--rows", options.rows, "Rows that are there")->check(CLI::Range(1, 1 << 30));
  app.add_option("--keys", options.keys, "Keys in a list")->check(CLI::Range(1, 1 << 24));
  app.add_option("--rounds", options.rounds, "Lists per point")->check(CLI::Range(5, 100000));
  app.add_option("--rule", options.rule, "Update rule: " + paceline::rule_help());
  app.add_flag("!--narrow", options.wide, "Only rows of width 1");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

std::uint64_t key_of(std::uint64_t row) { return paceline::mix(row, 77); }

Keys uniform_keys(Random& random, const Options& options, std::uint64_t rows) {
  Keys keys(options.keys);
  for (std::uint64_t& key : keys) key = key_of(random.below(rows));
  return keys;
}

// Zipf's law with exponent 1, by inversion of the continuous density: the kth row is asked for in proportion to 1/k.
Keys zipf_keys(Random& random, const Options& options, std::uint64_t rows) {
  Keys keys(options.keys);
  for (std::uint64_t& key : keys) {
    key = key_of(static_cast<std::uint64_t>(std::pow(static_cast<double>(rows), random.uniform())) - 1);
  }
  return keys;
}

void fill(SparseRows& rows, std::uint64_t count, std::size_t width) {
  Keys keys;
  const Floats zeros(100'000 * width, 0.0f);
  for (std::uint64_t row = 0; row < count;) {
    keys.clear();
    for (; row < count && keys.size() < 100'000; ++row) keys.push_back(key_of(row));
    rows.add(keys, std::span(zeros).first(keys.size() * width));
  }
  if (rows.size() != count) throw paceline::Error(paceline::Code::unsound, "not all rows are there");
}

// Rows that nothing was added to yet must read as zeros, then as what was added.
void verify(SparseRows& rows, std::size_t width) {
  const Keys keys = {key_of(0), key_of(1), key_of(2)};
  Floats read(keys.size() * width);
  rows.add(keys, Floats(keys.size() * width, 1.0f));
  rows.read(keys, read);
  for (const float value : read) {
    if (value == 0.0f) throw paceline::Error(paceline::Code::unsound, "a row did not change");
  }
}

template <class Operation>
double seconds(const Operation& operation) {
  const auto begin = std::chrono::steady_clock::now();
  operation();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Point {
  std::vector<double> add, read, pair, copy;  // seconds of each round
};

void print(const std::string& what, const Options& options, const SparseRows& rows, const Point& point) {
  const auto mkeys = [&](const std::vector<double>& spent) {
    return static_cast<double>(options.keys) / paceline::median(spent) / 1e6;
  };
  const std::size_t width = rows.options().width;
  const double list_gb = static_cast<double>(options.keys * width * sizeof(float)) / 1e9;
  std::printf(
      R"({"point":"%s","rule":"%s","rows":%zu,"width":%zu,"keys":%zu,"add_mkeys":%.1f,"read_mkeys":%.1f,)"
      R"("pair_mkeys":%.1f,"pair_best_mkeys":%.1f,"pair_mad_us":%.1f,"pair_p99_us":%.1f,"add_gbps":%.2f,"read_gbps":%.2f,"memcpy_gbps":%.2f,)"
      R"("table_bytes":%zu})"
      "\n",
      what.c_str(), rows.options().rule.text().c_str(), rows.size(), width, options.keys, mkeys(point.add),
      mkeys(point.read), mkeys(point.pair), static_cast<double>(options.keys) / paceline::quantile(point.pair, 0) / 1e6,
      paceline::mad(point.pair) * 1e6, paceline::quantile(point.pair, 0.99) * 1e6,
      list_gb / paceline::median(point.add), list_gb / paceline::median(point.read),
      list_gb / paceline::median(point.copy), rows.memory_bytes());
  std::fflush(stdout);
}

using MakeKeys = std::function<Keys(Random&)>;
enum class Lookup { fresh, resolved };

// Resolved lists are as many as rounds, resolved beforehand, so that their rows are as cold as those of fresh ones.
void run_point(const std::string& what, const Options& options, SparseRows& rows, const MakeKeys& make, Lookup lookup) {
  const std::size_t count = options.keys * rows.options().width;
  Random random(9);
  const Floats gradients(count, 0.001f);
  Floats into(count);
  Point point;
  std::vector<paceline::ResolvedKeys> lists;
  for (std::size_t i = 0; i < options.rounds + 3; ++i) lists.push_back(rows.resolve(make(random)));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const bool resolved = lookup == Lookup::resolved;
    paceline::ResolvedKeys& list = lists[i];
    const std::span<const std::uint64_t> keys = list.keys;
    const double add = seconds([&] { resolved ? rows.add(list, gradients) : rows.add(keys, gradients); });
    const double read = seconds([&] { resolved ? rows.read(list, into) : rows.read(keys, into); });
    const double copy = seconds([&] { std::memcpy(into.data(), gradients.data(), count * sizeof(float)); });
    if (i < 3) continue;  // warm-up
    point.add.push_back(add);
    point.read.push_back(read);
    point.pair.push_back(add + read);
    point.copy.push_back(copy);
  }
  print(what, options, rows, point);
}

void run_width(const Options& options, std::size_t width, std::uint64_t count) {
  SparseRows rows({.width = width, .rule = paceline::parse_rule(options.rule)});
  const double spent = seconds([&] { fill(rows, count, width); });
  std::fprintf(stderr, "width %zu: %llu rows made, %.1f million/s\n", width, static_cast<unsigned long long>(count),
               static_cast<double>(count) / spent / 1e6);
  verify(rows, width);
  const MakeKeys uniform = [&](Random& random) { return uniform_keys(random, options, count); };
  const MakeKeys zipf = [&](Random& random) { return zipf_keys(random, options, count); };
  run_point("uniform", options, rows, uniform, Lookup::fresh);
  run_point("uniform resolved", options, rows, uniform, Lookup::resolved);
  run_point("zipf", options, rows, zipf, Lookup::fresh);
  run_point("zipf resolved", options, rows, zipf, Lookup::resolved);
}

void run(const Options& options) {
  run_width(options, 1, options.rows);
  if (options.wide) run_width(options, 64, std::max<std::uint64_t>(1, options.rows / 10));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse_options(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
