// Made-up runs for the tests of comparisons.
#pragma once

#include <string>
#include <vector>

#include "paceline/record/compare_runs.hpp"

namespace paceline {

// One epoch for each accuracy, each of ten steps, `seconds` and 1000 bytes.
inline ComparedRun made_up_run(std::uint64_t seed, const std::vector<double>& accuracies, double seconds) {
  ComparedRun run{.seed = seed};
  int epoch = 0;
  for (const double accuracy : accuracies) {
    ++epoch;
    run.epochs.push_back({.epoch = epoch,
                          .step = epoch * 10,
                          .seconds = epoch * seconds,
                          .loss = 1 - accuracy,
                          .test_loss = 1 - accuracy,
                          .test_accuracy = accuracy,
                          .bytes_sent = static_cast<std::uint64_t>(epoch) * 1000});
  }
  run.final = {{"final", true},
               {"stop_reason", "all epochs done"},
               {"step", epoch * 10},
               {"seconds", epoch * seconds},
               {"test_loss", accuracies.empty() ? 1 : 1 - accuracies.back()},
               {"test_accuracy", accuracies.empty() ? 0 : accuracies.back()},
               {"samples_per_s", 100},
               {"bytes_sent", epoch * 1000},
               {"workers", 2}};
  return run;
}

}  // namespace paceline
