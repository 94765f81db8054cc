#include "paceline/record/progress_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "paceline/record/figures.hpp"

namespace paceline {
namespace {

constexpr int kShortestBar = 6;
constexpr int kLongestBar = 24;
constexpr std::size_t kListedRanks = 8;  // more ranks than that are told as a range
constexpr float kMuchWaiting = 0.2f;

constexpr std::string_view kCyan = "\x1b[36m", kDim = "\x1b[2m", kRed = "\x1b[31m", kYellow = "\x1b[33m";
constexpr std::string_view kPlain = "\x1b[0m";

// A piece of the line. `rank` says how early it is given up: the highest first.
struct Part {
  std::string text;
  int rank;
  std::string_view tint = {};
};

// All that is written here takes one column per code point.
int display_columns(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string epoch_text(int epoch, int epochs) {
  return epochs < 1 ? fmt::format("epoch {}", epoch) : fmt::format("epoch {}/{}", epoch, epochs);
}

std::string count_text(const Progress& progress) { return fmt::format("{}/{}", progress.step, progress.steps); }

std::string wait_text(const std::vector<float>& shares) {
  if (shares.empty()) return {};
  if (shares.size() > kListedRanks) {
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    return fmt::format("wait {} to {}", percent(*least, 0), percent(*most, 0));
  }
  std::string text = "wait";
  for (const float share : shares) text += " " + percent(share, 0);
  return text;
}

std::string_view wait_tint(const std::vector<float>& shares) {
  return std::any_of(shares.begin(), shares.end(), [](float share) { return share > kMuchWaiting; }) ? kYellow : kDim;
}

// What stands right of the count, in the order of the line.
std::vector<Part> figures_of(const Progress& progress) {
  std::vector<Part> parts = {{rounded(progress.samples_per_s) + " samples/s", 4},
                             {fmt::format("loss {:.4f}", progress.loss), 1, std::isfinite(progress.loss) ? "" : kRed}};
  if (progress.score == Score::rmse) {
    parts.push_back({fmt::format("rmse {:.4f}", std::sqrt(progress.loss)), 3});
  } else if (std::isfinite(progress.accuracy)) {
    parts.push_back({"acc " + percent(progress.accuracy), 3});
  }
  if (progress.seconds_left >= 0) parts.push_back({clock_time(progress.seconds_left) + " left", 2});
  if (!progress.wait_shares.empty())
    parts.push_back({wait_text(progress.wait_shares), 5, wait_tint(progress.wait_shares)});
  return parts;
}

std::string tinted(const std::string& text, std::string_view tint, bool colour) {
  return colour && !tint.empty() ? fmt::format("{}{}{}", tint, text, kPlain) : text;
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string bar(const Progress& progress, int length, bool colour) {
  const double whole = static_cast<double>(std::max<std::int64_t>(progress.steps, 1));
  const double share = std::clamp(static_cast<double>(progress.step) / whole, 0.0, 1.0);
  const int done = static_cast<int>(std::floor(share * length));
  return tinted(repeated("━", done), kCyan, colour) + tinted(repeated("─", length - done), kDim, colour);
}

// The count alone, for a terminal that has room for little else.
std::string narrow_line(const Progress& progress, int columns) {
  const std::string count = count_text(progress);
  if (display_columns(count) <= columns) return count;
  return fmt::format("{}", progress.step).substr(0, static_cast<std::size_t>(std::max(columns, 0)));
}

// How many ranks of parts fit into `room`; each takes two columns of space before it.
int ranks_that_fit(const std::vector<Part>& parts, int room) {
  int fitting = 0;
  for (int rank = 1; rank <= 5; ++rank) {
    for (const Part& part : parts) {
      if (part.rank == rank) room -= 2 + display_columns(part.text);
    }
    if (room < 0) break;
    fitting = rank;
  }
  return fitting;
}

std::string joined(const std::vector<Part>& parts, int ranks, bool colour) {
  std::string line;
  for (const Part& part : parts) {
    if (part.rank <= ranks) line += "  " + tinted(part.text, part.tint, colour);
  }
  return line;
}

}  // namespace

std::string progress_line(const Progress& progress, int columns, bool colour) {
  const std::string epoch = epoch_text(progress.epoch, progress.epochs);
  const std::string count = count_text(progress);
  int room = columns - display_columns(epoch) - 1 - display_columns(count);
  if (room < 0) return narrow_line(progress, columns);
  room -= kShortestBar + 1;
  if (room < 0) return epoch + " " + count;

  const std::vector<Part> parts = figures_of(progress);
  const int ranks = ranks_that_fit(parts, room);
  room -= display_columns(joined(parts, ranks, false));
  const int length = std::min(kShortestBar + room, kLongestBar);
  return epoch + " " + bar(progress, length, colour) + " " + count + joined(parts, ranks, colour);
}

std::string plain_progress_line(const Progress& progress) {
  return epoch_text(progress.epoch, progress.epochs) + "  step " + count_text(progress) +
         joined(figures_of(progress), 5, false);
}

std::string epoch_line(const EpochMetrics& metrics, int epochs) {
  std::string line = epoch_text(metrics.epoch, epochs) + fmt::format("  loss {:.4f}", metrics.loss);
  const auto add_share = [&line](const char* label, double share) {
    if (std::isfinite(share)) line += fmt::format("  {} {}", label, percent(share));
  };
  if (metrics.score() == Score::rmse) {
    if (metrics.valid_loss) line += fmt::format("  valid rmse {:.4f}", std::sqrt(*metrics.valid_loss));
    line += fmt::format("  test rmse {:.4f}", *metrics.test_rmse);
  } else {
    add_share("train", metrics.train_accuracy);
    if (metrics.valid_accuracy) add_share("valid", *metrics.valid_accuracy);
    add_share("test", metrics.test_accuracy);
    if (metrics.test_auc) line += fmt::format("  log loss {:.4f}  AUC {:.4f}", metrics.test_loss, *metrics.test_auc);
  }
  line += fmt::format("  {} samples/s", rounded(metrics.samples_per_s));
  add_share("wait", metrics.wait_share);
  if (metrics.staleness) {
    line += fmt::format("  stale {:.2f} clocks, at most {}", metrics.staleness->mean, metrics.staleness->max);
    if (metrics.staleness->violations > 0)
      line += fmt::format(", {} reads past the bound", with_thousands(metrics.staleness->violations));
  }
  return line + fmt::format("  {:.1f} s", metrics.seconds);
}

}  // namespace paceline
