// The lines that a person watches while a run trains. Pure: they make strings and print nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/record/metrics.hpp"

namespace paceline {

struct Progress {
  int epoch = 0, epochs = 0;
  std::int64_t step = 0, steps = 0;  // of this epoch
  double samples_per_s = 0;
  double loss = 0;
  double accuracy = 0;       // of training, running; NaN: not shown
  double seconds_left = -1;  // of the whole run; < 0: unknown
  std::vector<float> wait_shares = {};
  Score score = Score::accuracy;  // rmse: the root of `loss` is shown instead
};

// One line with a bar, at most `columns` wide on the screen; where not all fits, the least important parts go first and
// the step goes last. With `colour` it carries terminal escapes.
// epoch 2/3 ━━━━━━━━━━━━━━━━──  412/469  1,834 samples/s  loss 0.2931  acc 89.1%  0:41 left  wait 2% 3%
std::string progress_line(const Progress& progress, int columns, bool colour);

// For logs: without bar and colour.
std::string plain_progress_line(const Progress& progress);

// epoch 2/3  loss 0.2931  train 89.4%  test 88.7%  1,834 samples/s  wait 2.1%  41.2 s
// epoch 2/3  loss 0.2931  test rmse 0.5414  1,834 samples/s  wait 2.1%  41.2 s
// `epochs` < 1: unknown.
std::string epoch_line(const EpochMetrics& metrics, int epochs);

}  // namespace paceline
