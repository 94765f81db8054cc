#include "paceline/torch/run_journal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/record/report.hpp"
#include "paceline/record/trace_file.hpp"

namespace paceline {
namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kPoints = "steps.jsonl";

int columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// The lines of a run that is resumed, without those of steps that are made again and without its last words.
std::vector<nlohmann::json> earlier_lines(const std::string& path, std::int64_t last_step) {
  std::vector<nlohmann::json> kept;
  if (!std::filesystem::exists(path)) return kept;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded() || json.contains("final") || json.value("step", std::int64_t{0}) > last_step) continue;
    kept.push_back(json);
  }
  return kept;
}

std::string joined(const std::vector<nlohmann::json>& lines) {
  std::string text;
  for (const nlohmann::json& line : lines) text += line.dump() + "\n";
  return text;
}

}  // namespace

RunJournal::RunJournal(const TrainConfig& config, Voice voice, std::int64_t resume_step)
    : config_(config),
      speaks_(voice != Voice::silent),
      terminal_(voice == Voice::draws && !config.json && !config.quiet && isatty(STDOUT_FILENO) != 0) {
  if (!speaks_) return;
  for (const char* file : {kMetrics, kPoints}) {
    const std::string path = config_.out + "/" + file;
    const auto lines = earlier_lines(path, resume_step);
    write_atomically(path, joined(lines));
    for (const nlohmann::json& line : lines) {
      file == kMetrics ? epochs_.push_back(epoch_metrics_from(line)) : points_.push_back(step_point_from(line));
    }
  }
}

RunJournal::~RunJournal() { clear_line(); }

void RunJournal::introduce(const std::string& line) {
  if (speaks_ && !config_.json && !config_.quiet) say(line);
}

void RunJournal::draw(TimePoint now, const Progress& progress) {
  if (config_.json || config_.quiet) {
    next_line_ = kNever;
  } else if (terminal_) {
    next_line_ = now + std::chrono::milliseconds(150);
    fmt::print("\r{}\x1b[K", progress_line(progress, columns(), true));
    std::fflush(stdout);
    line_open_ = true;
  } else {
    const bool first = next_line_ == TimePoint{};  // the first figures come after the first ten seconds
    next_line_ = now + std::chrono::seconds(10);
    if (!first) say(plain_progress_line(progress));
  }
}

void RunJournal::clear_line() {
  if (!line_open_) return;
  fmt::print("\r\x1b[K");
  line_open_ = false;
}

void RunJournal::say(const std::string& line) {
  clear_line();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void RunJournal::remark(const std::string& sentence) {
  if (!speaks_) return;
  clear_line();
  std::fflush(stdout);
  fmt::print(stderr, "paceline: {}\n", sentence);
}

void RunJournal::append(const std::string& file, const std::string& line) {
  const std::string path = config_.out + "/" + file;
  std::FILE* stream = std::fopen(path.c_str(), "a");
  const bool good = stream != nullptr && std::fprintf(stream, "%s\n", line.c_str()) > 0;
  const bool closed = stream != nullptr && std::fclose(stream) == 0;
  if (!good || !closed) throw system_error("cannot write " + path, errno);
}

void RunJournal::add_point(const StepPoint& point) {
  if (!speaks_) return;
  points_.push_back(point);
  append(kPoints, to_json(point).dump());
}

void RunJournal::end_epoch(const EpochMetrics& metrics) {
  if (!speaks_) return;
  epochs_.push_back(metrics);
  const std::string line = to_json(metrics).dump();
  append(kMetrics, line);
  if (config_.json) {
    say(line);
  } else if (!config_.quiet) {
    say(epoch_line(metrics, config_.epochs));
  }
}

void RunJournal::finish(const nlohmann::ordered_json& final, const std::vector<RankTrace>& traces,
                        const std::vector<LayerCost>& layers, double compute_seconds_per_step) {
  if (!speaks_) return;
  append(kMetrics, final.dump());
  write_trace(config_.out + "/trace.json", traces);
  const std::string report = config_.out + "/report.html";
  write_atomically(report, render_report({.config = to_json(config_),
                                          .epochs = epochs_,
                                          .points = points_,
                                          .final = final,
                                          .traces = traces,
                                          .layers = layers,
                                          .compute_seconds_per_step = compute_seconds_per_step}));
  if (config_.json) return say(final.dump());
  const std::string result = final.contains("test_rmse")
                                 ? fmt::format("test rmse {:.4f}", final.at("test_rmse").get<double>())
                                 : fmt::format("test accuracy {:.2f}%", 100 * final.at("test_accuracy").get<double>());
  say(fmt::format("{} after {:.1f} s of training, step {}: {}, {:.0f} samples/s",
                  final.at("stop_reason").get<std::string>(), final.at("seconds").get<double>(),
                  final.at("step").get<std::int64_t>(), result, final.at("samples_per_s").get<double>()));
  if (!config_.quiet) say(fmt::format("report: {}", report));
}

}  // namespace paceline
