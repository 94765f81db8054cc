#include "paceline/record/report_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/record/figures.hpp"
#include "paceline/record/html.hpp"

namespace paceline {
namespace {

constexpr double kRoomForText = 0.055;  // the share of the scale from which on a percentage fits into its segment
constexpr std::size_t kManyWorkers = 16;
constexpr int kTicks = 4;

std::string four_digits(double value) { return std::isfinite(value) ? fmt::format("{:.4f}", value) : "–"; }

std::string seconds_text(double value) {
  if (!(std::abs(value) < 1e15)) return "–";
  const double tenths = std::round(std::abs(value) * 10);
  return fmt::format("{}.{}", with_thousands(static_cast<std::int64_t>(tenths / 10)), std::fmod(tenths, 10));
}

// How good the model was, by the goal of its task.
struct Quality {
  std::string train, valid, test;
};

Quality quality_of(const EpochMetrics& epoch) {
  if (epoch.score() == Score::rmse) {
    const auto root = [](double squared) { return four_digits(std::sqrt(squared)); };
    return {root(epoch.loss), epoch.valid_loss ? root(*epoch.valid_loss) : "–", four_digits(*epoch.test_rmse)};
  }
  return {percent(epoch.train_accuracy, 2), epoch.valid_accuracy ? percent(*epoch.valid_accuracy, 2) : "–",
          percent(epoch.test_accuracy, 2)};
}

Cells epoch_cells(const EpochMetrics& epoch, bool validated) {
  const Quality quality = quality_of(epoch);
  Cells cells = {with_thousands(epoch.epoch), with_thousands(epoch.step), seconds_text(epoch.seconds),
                 four_digits(epoch.loss), quality.train};
  if (validated) cells.insert(cells.end(), {epoch.valid_loss ? four_digits(*epoch.valid_loss) : "–", quality.valid});
  const Cells rest = {four_digits(epoch.test_loss), quality.test,
                      rounded(epoch.samples_per_s), percent(epoch.wait_share),
                      byte_count(epoch.bytes_sent), fmt::format("{:.3g}", epoch.learning_rate)};
  cells.insert(cells.end(), rest.begin(), rest.end());
  return cells;
}

std::string segment(const WorkerTime& worker, Activity activity, double longest) {
  const double seconds = worker.in(activity);
  if (!(seconds > 0)) return {};
  const std::string share = percent(seconds / worker.total(), 0);
  return fmt::format("<i class=\"{0}\" style=\"width:{1:.3f}%\" data-tip=\"{0} {2} s · {3}\">{4}</i>", name(activity),
                     100 * seconds / longest, seconds_text(seconds), percent(seconds / worker.total()),
                     seconds / longest >= kRoomForText ? share : "");
}

std::string worker_bar(const WorkerTime& worker, double longest, bool straggler) {
  std::string segments;
  for (const Activity activity : kStepActivities) segments += segment(worker, activity, longest);
  const std::string host = html_escaped(worker.host);
  return fmt::format(
      "<div class=\"worker{}\"><span class=\"who\" title=\"{}\"><b>rank {}</b> {}</span>"
      "<span class=\"bar\">{}</span><span class=\"sum\">{} s</span></div>\n",
      straggler ? " straggler" : "", host, worker.rank, host, segments, seconds_text(worker.total()));
}

// The largest 1, 2 or 5 times a power of ten that still gives `kTicks` ticks.
double tick_distance(double longest) {
  const double power = std::pow(10, std::floor(std::log10(longest / kTicks)));
  for (const double factor : {5.0, 2.0}) {
    if (factor * power * kTicks <= longest) return factor * power;
  }
  return power;
}

std::string time_axis(double longest) {
  std::string ticks;
  const double distance = tick_distance(longest);
  for (int i = 0; i * distance <= longest * (1 + 1e-9); ++i) {
    ticks +=
        fmt::format("<i style=\"left:{:.3f}%\">{}</i>", 100 * i * distance / longest,
                    distance < 1 ? fmt::format("{:.3g}", i * distance) : with_thousands(std::llround(i * distance)));
  }
  return fmt::format(
      "<div class=\"worker axis\"><span class=\"who\"></span><span class=\"ticks\">{}</span>"
      "<span class=\"sum\">seconds</span></div>\n",
      ticks);
}

std::string result_text(const nlohmann::json& value) {
  if (value.is_number_integer() && !value.is_number_unsigned()) return with_thousands(value.get<std::int64_t>());
  if (value.is_number_unsigned() && value <= INT64_MAX) return with_thousands(value.get<std::int64_t>());
  if (!value.is_number_float()) return json_text(value);
  const double number = value.get<double>();
  return std::abs(number) >= 1000 ? rounded(number) : fmt::format("{:.5g}", number);
}

using ValueText = std::string (*)(const nlohmann::json&);

// Keys of nested objects are joined by dots: exchange.bucket_bytes.
void flatten(const nlohmann::json& object, const std::string& prefix, ValueText text, std::vector<Cells>& rows) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && !value.empty()) {
      flatten(value, prefix + key + ".", text, rows);
    } else {
      rows.push_back({prefix + key, text(value)});
    }
  }
}

std::string key_table(const nlohmann::json& object, ValueText text) {
  std::vector<Cells> rows;
  if (object.is_object()) flatten(object, "", text, rows);
  if (rows.empty()) return "<p class=\"empty\">Nothing was recorded.</p>";
  return html_table("keys", {"Key", "Value"}, rows);
}

}  // namespace

std::string epoch_table(const std::vector<EpochMetrics>& epochs) {
  if (epochs.empty()) return "<p class=\"empty\">No epoch has finished.</p>";
  const bool validated = std::any_of(epochs.begin(), epochs.end(), [](const EpochMetrics& epoch) {
    return epoch.valid_loss.has_value() || epoch.valid_accuracy.has_value();
  });
  const std::string goal = epochs.back().score() == Score::rmse ? "RMSE" : "acc.";
  Cells head = {"Epoch", "Step", "Time (s)", "Train loss", "Train " + goal};
  if (validated) head.insert(head.end(), {"Valid loss", "Valid " + goal});
  head.insert(head.end(), {"Test loss", "Test " + goal, "Samples/s", "Wait", "Sent", "Learning rate"});
  std::vector<Cells> rows;
  for (const EpochMetrics& epoch : epochs) rows.push_back(epoch_cells(epoch, validated));
  return html_table("figures", head, rows);
}

std::string worker_table(const std::vector<WorkerTime>& workers) {
  if (workers.empty()) return {};
  Cells head = {"Rank", "Host"};
  for (const Activity activity : kStepActivities) head.push_back(fmt::format("{} (s)", name(activity)));
  head.insert(head.end(), {"total (s)", "wait share"});
  std::vector<Cells> rows;
  for (const WorkerTime& worker : workers) {
    Cells cells = {fmt::format("{}", worker.rank), worker.host};
    for (const Activity activity : kStepActivities) {
      const double share = worker.total() > 0 ? worker.in(activity) / worker.total() : 0;
      cells.push_back(fmt::format("{} · {}", seconds_text(worker.in(activity)), percent(share, 0)));
    }
    cells.insert(cells.end(), {seconds_text(worker.total()), percent(worker.wait_share())});
    rows.push_back(std::move(cells));
  }
  return html_table("figures hosts", head, rows);
}

std::string worker_bars(const std::vector<WorkerTime>& workers, Rank straggler) {
  double longest = 0;
  for (const WorkerTime& worker : workers) longest = std::max(longest, worker.total());
  if (!(longest > 0) || !std::isfinite(longest)) return {};
  std::string html = "<div class=\"legend\">";
  for (const Activity activity : kStepActivities)
    html += fmt::format("<span><i class=\"{0}\"></i>{0}</span>", name(activity));
  html += fmt::format("</div>\n<div class=\"workers{}\">\n", workers.size() > kManyWorkers ? " dense" : "");
  for (const WorkerTime& worker : workers) html += worker_bar(worker, longest, worker.rank == straggler);
  return html + time_axis(longest) + "</div>\n";
}

std::string config_table(const nlohmann::json& config) { return key_table(config, json_text); }

std::string result_table(const nlohmann::json& final) { return key_table(final, result_text); }

}  // namespace paceline
