// RunJournal: what rank 0 says and writes while a run trains: the lines on the terminal or as JSON, and the files of
// the run folder. Without torch. One thread owns it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/core/trace.hpp"
#include "paceline/record/layer_cost.hpp"
#include "paceline/record/metrics.hpp"
#include "paceline/record/progress_line.hpp"
#include "paceline/torch/train_config.hpp"

namespace paceline {

class RunJournal {
 public:
  enum class Voice {
    silent,  // and without a run folder: every rank but 0
    lines,   // also on a terminal: under mpirun every process has one, whatever becomes of its output
    draws,   // a progress line, on a terminal
  };
  // `resume_step` >= 0: goes on with the lines of an earlier run up to that step.
  RunJournal(const TrainConfig& config, Voice voice, std::int64_t resume_step);
  ~RunJournal();

  // One line before the first step.
  void introduce(const std::string& line);
  // Called after every step; draws now and then. `progress` is made only when it is drawn.
  template <class MakeProgress>
  void tell_progress(TimePoint now, const MakeProgress& progress) {
    if (speaks_ && now >= next_line_) draw(now, progress());
  }
  void add_point(const StepPoint& point);
  void end_epoch(const EpochMetrics& metrics);
  // Also of an earlier run that this one goes on with; nullptr: none yet, or not rank 0.
  const EpochMetrics* last_epoch() const { return epochs_.empty() ? nullptr : &epochs_.back(); }
  // A remark for a person: a refused checkpoint, say.
  void remark(const std::string& sentence);
  // The last line, and the report. `traces` of all ranks, or of this one if the others are gone.
  void finish(const nlohmann::ordered_json& final, const std::vector<RankTrace>& traces,
              const std::vector<LayerCost>& layers, double compute_seconds_per_step);

 private:
  void draw(TimePoint now, const Progress& progress);
  void say(const std::string& line);
  void clear_line();
  void append(const std::string& file, const std::string& line);

  const TrainConfig& config_;
  const bool speaks_;
  const bool terminal_;
  TimePoint next_line_{};
  bool line_open_ = false;
  std::vector<EpochMetrics> epochs_;
  std::vector<StepPoint> points_;
};

}  // namespace paceline
