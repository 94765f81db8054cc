#include "paceline/cli/compare_command.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>

#include "paceline/cli/compare_plans.hpp"
#include "paceline/cli/compare_series.hpp"
#include "paceline/cli/train_worker.hpp"
#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/record/compare_page.hpp"
#include "paceline/record/compare_tables.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string plans;
  int seeds = 5;
  std::string to;
  double price = 0;
  std::string out;
  bool json = false;
  std::vector<std::string> common;  // options of train
};

void say(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

CompareSeries series_of(const Arguments& a) {
  if (!fs::is_regular_file(a.plans)) throw Error(Code::invalid, fmt::format("there is no file of plans {}", a.plans));
  CompareSeries series{.out = a.out, .plans = parse_plans(read_file(a.plans)), .seeds = a.seeds, .program = {}};
  check_plans(series.plans, a.common);
  if (series.out.empty()) series.out = fmt::format("runs/compare-{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
  series.program = fs::read_symlink("/proc/self/exe").string();
  check_folders(series);
  return series;
}

void tell_result(const CompareInput& input, bool json) {
  const Score score = goal_of(input.plans);
  const std::vector<PlanFigures> figures = figures_of(input.plans, input.options);
  if (json) return say(compare_json(figures, input.options, score).dump());
  say("\n" + terminal_table(compare_table(figures, input.options, score)));
  say(verdict_of(figures, input.options, score));
}

int compare_with(const Arguments& a) {
  CompareOptions options{.price = a.price};
  if (!a.to.empty()) options.target = parse_compare_target(a.to);
  const CompareSeries series = series_of(a);
  SeriesResult result = run_series(series, [&a](const std::string& line) {
    if (!a.json) say(line);
  });
  const CompareInput input{.plans = std::move(result.plans),
                           .options = options,
                           .common = fmt::format("{}", fmt::join(a.common, " ")),
                           .ending = result.signal == 0 ? "" : "interrupted"};
  const std::string page = series.out + "/compare.html";
  write_atomically(page, render_comparison(input));
  tell_result(input, a.json);
  if (!a.json) say(fmt::format("page: {}", page));
  if (result.signal != 0) {
    if (!a.json) say(fmt::format("interrupted; the same command with --out {} goes on", series.out));
    return kSignalExit + result.signal;
  }
  return std::any_of(input.plans.begin(), input.plans.end(), [](const ComparedPlan& plan) {
    return std::any_of(plan.runs.begin(), plan.runs.end(), [](const ComparedRun& run) { return !run.failure.empty(); });
  });
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("compare", "Train several plans with several seeds and say which is best");
  command->footer(
      "Options of paceline train that all plans share follow --:\n"
      "paceline compare --plans plans.txt --seeds 5 --to accuracy=0.9 -- --model cnn --data fashion --epochs 3\n"
      "plans.txt has a plan a line, NAME: OPTIONS, as in `ring: --where ring`; # begins a comment.");
  auto arguments = std::make_shared<Arguments>();  // shared: the callback must be copyable
  command->add_option("--plans", arguments->plans, "The file of plans")->required()->type_name("FILE");
  command->add_option("--seeds", arguments->seeds, "Each plan is trained with seeds 1 to N")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--to", arguments->to, "Who is first at accuracy=X, loss=X or rmse=X?");
  command->add_option("--price", arguments->price, "What a worker costs an hour, for the costs")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("FLOAT");
  command
      ->add_option("--out", arguments->out,
                   "Where runs and page go (default: runs/compare-TIME); runs that are there "
                   "complete are not repeated")
      ->type_name("DIR");
  command->add_flag("--json", arguments->json, "The result as one JSON line, instead of text");
  command->add_option("OPTIONS", arguments->common, "After --: options of paceline train that all plans share");
  command->callback([arguments, &exit_code] { exit_code = compare_with(*arguments); });
}

}  // namespace paceline
