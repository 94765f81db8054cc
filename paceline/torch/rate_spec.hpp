// RateSpec: how a run's learning rate is to go, as a user says it. Pure, without torch, so that wrong words are refused
// before anything is started; LearningRate (learning_rate.hpp) follows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

struct RateSchedule {
  enum class Kind {
    constant,
    step,          // times `factor` after every `every_epochs` epochs
    exponential,   // times `factor` after every epoch
    inverse_sqrt,  // base / sqrt(t), t counted from 1; after a warm-up of w steps base sqrt(w / t) (Vaswani et al.
                   // 2017)
    cosine,        // to zero at the run's end (Loshchilov & Hutter 2017)
    plateau,       // halved whenever two epochs in a row were no better than the best before
  };
  Kind kind = Kind::constant;
  int every_epochs = 0;  // 0: every third of the run, as He et al. 2016 do
  double factor = 0.1;
};

// constant, step, step:EPOCHS or step:EPOCHS,FACTOR, exponential:FACTOR, inverse-sqrt, cosine, plateau. Throws
// Error{invalid} that lists them.
RateSchedule parse_schedule(const std::string& text);
std::vector<std::string> known_schedules();
std::string schedule_help();  // one line

struct RateSpec {
  std::string schedule = "constant";
  double base = 0;
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 1;
  // The rate grows linearly from 0, where it would have been before the first step, to what the schedule says (Goyal et
  // al. 2017): large batches often diverge without.
  std::int64_t warmup_steps = 0;
};
void check_rate(const RateSpec& spec);  // Error{invalid}

// How a base rate grows with the batch of all workers together, which is `reference` for the rate as given.
struct RateScale {
  enum class Kind {
    none,
    linear,  // Goyal et al. 2017
    sqrt,    // Krizhevsky 2014, Hoffer et al. 2017
  };
  Kind kind = Kind::none;
  std::int64_t reference = 0;

  double apply(double base, std::int64_t global_batch) const;
};
inline constexpr std::int64_t kReferenceBatch = 64;  // of default rates
// none, linear, linear:BATCH, sqrt, sqrt:BATCH. Error{invalid}
RateScale parse_rate_scale(const std::string& text);

}  // namespace paceline
