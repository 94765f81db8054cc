#include "paceline/record/report_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "paceline/record/figures.hpp"
#include "paceline/record/html.hpp"

namespace paceline {
namespace {

using nlohmann::json;

// config[key] as a word; an object is known by its "name".
std::string word(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || object[key].is_null()) return {};
  const json& value = object[key];
  if (value.is_object()) return word(value, "name");
  return value.is_array() ? "" : json_text(value);
}

std::optional<double> figure(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return {};
  return object[key].get<double>();
}

// What `final` says, else what the last epoch says, else the last point, else NaN.
template <typename Member>
double last(const ReportInput& input, const char* key, Member member, double StepPoint::*of_point = nullptr) {
  if (const auto value = figure(input.final, key)) return *value;
  if (!input.epochs.empty()) return static_cast<double>(input.epochs.back().*member);
  if (of_point != nullptr && !input.points.empty()) return input.points.back().*of_point;
  return std::numeric_limits<double>::quiet_NaN();
}

std::string tile(const char* label, const std::string& value, const std::string& note) {
  return fmt::format("<div class=\"tile\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", label, html_escaped(value),
                     html_escaped(note));
}

double last_rmse(const ReportInput& input) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  if (const auto value = figure(input.final, "test_rmse")) return *value;
  return input.epochs.empty() ? unknown : input.epochs.back().test_rmse.value_or(unknown);
}

std::string accuracy_tile(const ReportInput& input) {
  const double accuracy = last(input, "test_accuracy", &EpochMetrics::test_accuracy);
  const double loss = last(input, "test_loss", &EpochMetrics::test_loss);
  const std::string loss_text = std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "–";
  if (const double rmse = last_rmse(input); std::isfinite(rmse))
    return tile("Test RMSE", fmt::format("{:.4g}", rmse), "test loss " + loss_text);
  // A model that predicts numbers has a loss and no accuracy.
  if (!std::isfinite(accuracy) && std::isfinite(loss)) return tile("Test loss", loss_text, "");
  return tile("Test accuracy", percent(accuracy, 2), "test loss " + loss_text);
}

std::string time_tile(const ReportInput& input) {
  const double seconds = last(input, "seconds", &EpochMetrics::seconds, &StepPoint::seconds);
  const std::size_t epochs = input.epochs.size();
  return tile(
      "Training time", time_span(seconds),
      epochs == 0 ? "no epoch finished" : fmt::format("{} epoch{}", with_thousands(epochs), epochs == 1 ? "" : "s"));
}

std::string bytes_tile(const ReportInput& input) {
  const double bytes = last(input, "bytes_sent", &EpochMetrics::bytes_sent);
  const bool known = bytes >= 0 && bytes < 1e19;
  std::string note = "by all workers";
  for (const auto& [key, where] :
       {std::pair{"bytes_between_sites", "sites"}, std::pair{"bytes_between_hosts", "hosts"}}) {
    const auto part = figure(input.final, key);
    if (!part || !(*part >= 0 && *part < 1e19)) continue;
    note += fmt::format(", {} between {}", byte_count(static_cast<std::uint64_t>(*part)), where);
    break;  // where hosts are sites, the two are the same
  }
  return tile("Sent", known ? byte_count(static_cast<std::uint64_t>(bytes)) : "–", note);
}

std::size_t host_count(const ReportInput& input) {
  std::set<std::string> hosts;
  for (const EpochMetrics& epoch : input.epochs) {
    for (const WorkerTime& worker : epoch.workers) hosts.insert(worker.host);
  }
  return hosts.size();
}

std::string worker_count(const ReportInput& input) {
  std::string workers = word(input.config, "workers");
  if (workers.empty() && !input.epochs.empty()) workers = fmt::format("{}", input.epochs.back().workers.size());
  if (workers.empty() || workers == "0") return {};
  return workers + (workers == "1" ? " worker" : " workers");
}

bool ended_badly(const std::string& reason) {
  const auto says = [&reason](const char* sign) { return reason.find(sign) != std::string::npos; };
  return says("interrupt") || says("fail") || says("error") || says("lost") || says("diverged") || says("cancelled");
}

// From where on no loss is a number; a single bad step in between is seen in the chart.
std::optional<std::int64_t> diverged_at(const std::vector<StepPoint>& points) {
  std::optional<std::int64_t> step;
  for (auto point = points.rbegin(); point != points.rend() && !std::isfinite(point->loss); ++point) step = point->step;
  return step;
}

}  // namespace

std::string report_title(const ReportInput& input) {
  const std::string model = word(input.config, "model"), data = word(input.config, "data");
  if (model.empty() && data.empty()) return "Training run";
  if (model.empty()) return "Training on " + data;
  return data.empty() ? model : fmt::format("{} on {}", model, data);
}

std::string report_subtitle(const ReportInput& input) {
  std::string text = worker_count(input);
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " · ") + part; };
  if (host_count(input) > 1) add(fmt::format("{} hosts", host_count(input)));
  if (const std::string plan = word(input.config, "plan"); !plan.empty()) add("plan " + plan);
  if (const std::string plan = word(input.config, "between_sites"); !plan.empty()) add("between sites " + plan);
  if (const std::string hosts = word(input.config, "servers_on"); !hosts.empty()) add("servers on " + hosts);
  return text;
}

std::string report_status(const ReportInput& input) {
  std::string reason = word(input.final, "stop_reason");
  const bool no_end = input.final.is_null() || input.final.empty();
  if (reason.empty()) reason = no_end ? "no end recorded" : "ended";
  return fmt::format("<span class=\"status{}\">{}</span>", no_end || ended_badly(reason) ? " bad" : "",
                     html_escaped(reason));
}

Score report_score(const ReportInput& input) { return std::isfinite(last_rmse(input)) ? Score::rmse : Score::accuracy; }

std::string report_tiles(const ReportInput& input) {
  const double rate = last(input, "samples_per_s", &EpochMetrics::samples_per_s, &StepPoint::samples_per_s);
  return accuracy_tile(input) + tile("Throughput", rounded(rate), "samples/s") + time_tile(input) +
         tile("Waiting", percent(last(input, "wait_share", &EpochMetrics::wait_share)), "of the workers' time") +
         bytes_tile(input);
}

std::string report_warnings(const ReportInput& input) {
  const auto step = diverged_at(input.points);
  if (!step) return {};
  return fmt::format("<p class=\"warning\">The training loss is not a number from step {} on.</p>",
                     with_thousands(*step));
}

}  // namespace paceline
