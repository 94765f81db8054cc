// The inside of predict(), and what it measures.
#pragma once

#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/core/clock.hpp"
#include "paceline/torch/models.hpp"
#include "paceline/torch/predictor.hpp"
#include "paceline/torch/task.hpp"

namespace paceline {

// How quick a way through the data was, over all workers.
struct Pace {
  double samples_per_s = 0;                // of all workers together
  std::vector<double> batch_seconds = {};  // sorted
  double percentile(double share) const;   // by nearest rank; NaN without a batch
};

// Both on the same batch, one after the other, medians; of all workers the mean.
struct Trial {
  double fp32_seconds = 0;
  double lower_seconds = 0;
};

class Predictor {
 public:
  Predictor(Job& job, const PredictConfig& config);
  void run();

 private:
  // Of this worker's share.
  struct Pass {
    Tally tally;
    std::vector<double> batch_seconds;
    double examples = 0;
    std::string lines;  // of the output
  };

  Model load(Precision precision) const;
  Model load_together();
  std::vector<std::uint32_t> indices(std::size_t step) const;
  std::size_t steps() const;
  Trial try_precision(Model& lower);
  void require_gain(const Trial& trial) const;
  Pass predict_all(const Model& model);
  Pass predict_plainly(const Model& model);
  Pace gather_pace(const Pass& pass);
  std::string lines_of(const torch::Tensor& outputs, const torch::Tensor& answers, std::size_t first) const;
  void tell(const Tally& tally, const Pace& own, const Pace& plain, const Trial& trial) const;
  TimePoint now() const { return job_.endpoint().clock().now(); }

  Job& job_;
  const PredictConfig config_;
  const TrainConfig trained_;
  const PredictData data_;
  const Form form_;
  const Range share_;
  Communicator world_;
};

}  // namespace paceline
