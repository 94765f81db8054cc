#include "paceline/cli/fetch_command.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "paceline/cli/fetch.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// The one thing that a signal's handler may write to.
volatile sig_atomic_t interrupted_by = 0;

void take_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { interrupted_by = number; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends the command at once
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

struct FetchArguments {
  std::string name;
  FetchOptions options;
};

// On a terminal one line that changes; nothing elsewhere.
void show_progress(const FetchFile& file, std::uint64_t done) {
  if (isatty(STDERR_FILENO) == 0 || file.bytes == 0) return;
  fmt::print(stderr, "\r{}: {}%{}", file.name, done * 100 / file.bytes, done == file.bytes ? "\r\033[K" : "");
}

int fetch_with(FetchArguments& arguments) {
  const FetchSet set = find_fetch_set(arguments.name);
  FetchOptions& options = arguments.options;
  if (options.to.empty()) options.to = "data/" + set.name;
  options.say = [](const std::string& line) { fmt::print("{}\n", line); };
  options.progress = show_progress;
  options.cancelled = [] { return interrupted_by != 0; };
  take_signals();
  try {
    fetch(set, options);
  } catch (const Error& error) {
    if (error.code() != Code::cancelled) throw;
    fmt::print(stderr, "paceline: {}\n", error.what());
    return 128 + interrupted_by;
  }
  fmt::print("train with --data {}:{}\n", set.name, options.to);
  return 0;
}

}  // namespace

void add_fetch_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("fetch", "Get a public data set and check it: " + fetch_names());
  command->footer("paceline fetch mnist && paceline train --model cnn --data mnist:data/mnist");
  auto arguments = std::make_shared<FetchArguments>();  // shared: the callback must be copyable
  command->add_option("name", arguments->name, fetch_names())->required()->type_name("NAME");
  command->add_option("--to", arguments->options.to, "Folder for the files (default: data/NAME)")->type_name("DIR");
  command
      ->add_option("--from", arguments->options.from,
                   "Where the files are, instead of the public place: an address to which their names are added")
      ->type_name("URL");
  command->callback([arguments, &exit_code] { exit_code = fetch_with(*arguments); });
}

}  // namespace paceline
