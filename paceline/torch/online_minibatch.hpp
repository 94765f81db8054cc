// OnlineMinibatch: distributed online prediction with mini-batches (Dekel, Gilad-Bachrach, Shamir & Xiao 2012, "Optimal
// Distributed Online Prediction Using Mini-Batches"). Inputs arrive as a stream, at `rate` a second over all workers,
// and each has to be predicted with the model that is there when it arrives. The first b after an update make a batch;
// those that arrive until the sum of its gradients has travelled and the model is updated, mu of them, are predicted
// with the old model and counted, but not learned from. The regret of T inputs is then that of T / (b + mu) steps on
// batches of b: with b growing as T^rho, rho < 1/2, mu costs nothing in the leading term.
//
// It decides which inputs are which, from times that were measured elsewhere, and counts. Input k (from 0) arrives
// (k + 1) / rate after the start; a batch is computed while its inputs arrive, so it is computed when the last of them
// has arrived or, if that is later, when the computation would have ended had they all been there at the beginning.
// What arrives while a slow computation goes on after its batch is full is not learned from either, and counted by
// itself. Pure: no clock, no threads. One thread owns it; on several ranks it stays alike if all tell it the same
// times.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "paceline/core/clock.hpp"

namespace paceline {

// Inputs by number, from first to before last.
struct InputRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t size() const { return last - first; }
  bool operator==(const InputRange&) const = default;
};

struct OnlineCounters {
  std::int64_t batches = 0;
  std::int64_t learned = 0;            // inputs of batches
  std::int64_t passed_computing = 0;   // only predicted: they came while a full batch was still being computed
  std::int64_t passed_travelling = 0;  // or while its sum travelled
  double learned_loss = 0;             // sums over the inputs, each with the model of its time
  double passed_loss = 0;
  double seconds = 0;  // of the stream

  std::int64_t passed() const { return passed_computing + passed_travelling; }
  double mu() const;         // passed per batch
  double mean_loss() const;  // over all inputs, learned from or not: what regret is measured by
  std::string text() const;  // a sentence for people
};
nlohmann::ordered_json to_json(const OnlineCounters& counters, std::int64_t batch);

class OnlineMinibatch {
 public:
  // Error{invalid} unless rate and batch are positive and the rate is finite.
  OnlineMinibatch(double rate, std::int64_t batch);

  // The inputs of the next batch.
  InputRange next();
  // How long that batch took to compute and its sum to travel. Returns the inputs to be predicted with the model from
  // before the update, which is why this is called after the sum has come in and before it is applied.
  InputRange passed(Duration compute, Duration travel);
  // What the losses of the batch, and of the inputs that passed, add up to.
  void count_losses(double learned, double passed);

  const OnlineCounters& counters() const { return counters_; }

 private:
  std::int64_t arrived_by(double time) const;

  const double rate_;
  const std::int64_t batch_;
  InputRange current_;
  std::int64_t free_ = 0;  // the first input that arrives after the last update
  double now_ = 0;         // on the stream's own time: when the last update ended
  OnlineCounters counters_;
};

}  // namespace paceline
