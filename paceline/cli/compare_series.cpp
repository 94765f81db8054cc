#include "paceline/cli/compare_series.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "paceline/cli/run_command.hpp"
#include "paceline/core/error.hpp"
#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/child.hpp"
#include "paceline/launch/spawner.hpp"
#include "paceline/launch/sweep.hpp"
#include "paceline/launch/worker_environment.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/record/figures.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const CompareSeries& series, const PlanLine& plan, int seed) {
  return fmt::format("{}/{}/seed-{}", series.out, plan.name, seed);
}

std::string words_file(const std::string& folder) { return folder + ".json"; }

std::string words_text(const PlanLine& plan) {
  return nlohmann::json(plan.merged).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// In memory: the child's errors, of which the sentence is wanted.
class Errors {
 public:
  Errors() : file_(memfd_create("errors", MFD_CLOEXEC)) {
    if (!file_.valid()) throw system_error("cannot keep the errors of a run", errno);
  }
  int number() const { return file_.number(); }
  // The first sentence of paceline's, or the last line there is.
  std::string sentence() const {
    std::string text(static_cast<std::size_t>(std::max<off_t>(0, lseek(file_.number(), 0, SEEK_END))), '\0');
    const ssize_t got = pread(file_.number(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    static constexpr std::string_view kMark = "paceline: ";
    std::size_t begin = text.find(kMark);
    if (begin != std::string::npos) begin += kMark.size();
    if (begin == std::string::npos && text.ends_with('\n')) text.pop_back();
    if (begin == std::string::npos) begin = text.rfind('\n') + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  }

 private:
  Descriptor file_;
};

// One `paceline train`, in a process group of its own: a Ctrl-C reaches it through us, once.
class TrainChild {
 public:
  TrainChild(Spawner& spawner, const std::vector<std::string>& words) : spawner_(spawner) {
    EnvironmentList environment = own_environment();
    set_variable(environment, kJobVariable, spawner.job());
    Spawned spawned = spawner.spawn({.file = words.front(),
                                     .arguments = words,
                                     .environment = environment,
                                     .standard = {spawner.null(), spawner.null(), errors_.number()},
                                     .cores = {}});
    if (spawned.error != 0)
      throw Error(Code::system, explain_start_failure(words.front(), words.front(), spawned.error));
    child_.emplace(spawned.pid, std::move(spawned.process));
  }

  // Passes signals on and notes the first.
  Ending wait(int& signal) {
    while (true) {
      if (const auto ending = child_->reap()) {
        spawner_.forget(child_->pid());
        return *ending;
      }
      PollSet set;
      child_->watch(set);
      set.add(spawner_.signals().descriptor(), POLLIN);
      set.wait({}, kNever);
      while (const auto number = spawner_.signals().next()) {
        child_->signal(*number);
        if (signal == 0 && (*number == SIGINT || *number == SIGTERM || *number == SIGHUP)) signal = *number;
      }
    }
  }
  std::string sentence() const { return errors_.sentence(); }

 private:
  Spawner& spawner_;
  Errors errors_;
  std::optional<Child> child_;
};

std::string result_text(const ComparedRun& run) {
  const auto number = [&run](const char* key) {
    return run.final.contains(key) && run.final[key].is_number() ? run.final[key].get<double>() : 0;
  };
  const std::string quality = run.final.contains("test_rmse") ? fmt::format("RMSE {:.4g}", number("test_rmse"))
                                                              : percent(number("test_accuracy"), 2);
  return fmt::format("{}, {}, {} samples/s", quality, time_span(number("seconds")), rounded(number("samples_per_s")));
}

// Runs one plan with one seed; nullopt: a signal has ended it.
std::optional<ComparedRun> run_one(const CompareSeries& series, const PlanLine& plan, int seed, Spawner& spawner,
                                   int& signal) {
  const std::string folder = folder_of(series, plan, seed);
  // check_folders has seen that it is ours.
  fs::remove_all(folder);
  make_folder(series.out + "/" + plan.name);
  write_atomically(words_file(folder), words_text(plan));
  std::vector<std::string> words = {series.program, "train",           "--json",
                                    "--quiet",      "--out=" + folder, fmt::format("--seed={}", seed)};
  words.insert(words.end(), plan.merged.begin(), plan.merged.end());
  TrainChild child(spawner, words);
  const Ending ending = child.wait(signal);
  if (signal != 0) return {};
  const auto number = static_cast<std::uint64_t>(seed);
  if (ending.exit_code() == 0) {
    if (auto run = read_complete_run(folder, number)) return run;
  }
  const std::string sentence = child.sentence();
  return ComparedRun{.seed = number, .failure = sentence.empty() ? "paceline train " + describe(ending) : sentence};
}

}  // namespace

void check_folders(const CompareSeries& series) {
  require_writable_folder(series.out);
  for (const PlanLine& plan : series.plans) {
    for (int seed = 1; seed <= series.seeds; ++seed) {
      const std::string folder = folder_of(series, plan, seed);
      if (!fs::exists(folder)) continue;
      const bool ours = fs::is_regular_file(words_file(folder));
      if (ours && read_file(words_file(folder)) == words_text(plan)) continue;
      throw Error(Code::invalid,
                  fmt::format("{} holds a run with other options than plan '{}' has now; give another --out", folder,
                              plan.name));
    }
  }
}

SeriesResult run_series(const CompareSeries& series, const std::function<void(const std::string&)>& tell) {
  SeriesResult result;
  for (const PlanLine& plan : series.plans) result.plans.push_back({.name = plan.name, .options = plan.options});
  Spawner spawner;
  for (int seed = 1; seed <= series.seeds; ++seed) {
    for (std::size_t i = 0; i < series.plans.size(); ++i) {
      const PlanLine& plan = series.plans[i];
      const std::string who = fmt::format("seed {} of {}, {}", seed, series.seeds, plan.name);
      auto run = read_complete_run(folder_of(series, plan, seed), static_cast<std::uint64_t>(seed));
      const bool there = run.has_value();
      // After a signal only what is there is taken.
      if (!there && result.signal == 0) run = run_one(series, plan, seed, spawner, result.signal);
      if (!run) continue;
      tell(!run->failure.empty() ? fmt::format("{}: failed: {}", who, run->failure)
                                 : fmt::format("{}: {}{}", who, result_text(*run), there ? " (from before)" : ""));
      result.plans[i].runs.push_back(std::move(*run));
    }
  }
  return result;
}

}  // namespace paceline
