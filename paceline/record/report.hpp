// The report: one page of HTML about a run, complete in itself: no network, no other files, light and dark.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/core/trace.hpp"
#include "paceline/record/layer_cost.hpp"
#include "paceline/record/metrics.hpp"

namespace paceline {

// What the page knows of a run; any of it may be empty. All of `config` and `final` is shown in tables; these keys also
// make the headline, where they exist:
//   config: model, data, workers, plan, between_sites, servers_on (a string or number, or an object with a "name")
//   final:  stop_reason ("reached accuracy 0.9", "interrupted"), test_accuracy, test_loss, samples_per_s, seconds,
//           wait_share, bytes_sent, bytes_between_sites, bytes_between_hosts, test_rmse; figures that are missing come
//           from the last epoch, but those between sites and hosts
struct ReportInput {
  nlohmann::json config = {};
  std::vector<EpochMetrics> epochs = {};
  std::vector<StepPoint> points = {};
  nlohmann::json final = {};
  std::vector<RankTrace> traces = {};
  std::vector<LayerCost> layers = {};  // in the order of the forward pass
  // What a worker computed in a step, measured; 0: as the workers' times of the epochs say.
  double compute_seconds_per_step = 0;
};

std::string render_report(const ReportInput& input);

}  // namespace paceline
