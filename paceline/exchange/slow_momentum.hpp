// SlowMomentum: momentum of averages (SlowMo, Wang et al. 2020, with alpha = 1). A round of steps and the average after
// it count as one large step: with the parameters x before the round, their average a after it and the learning rate r,
//   u <- B u + (x - a) / r,   x <- x - r u.
// Who has the same averages has the same parameters afterwards. u is as large as the parameters, as is the x that is
// kept; u begins at zero, and so does a resumed run's. One thread owns it; the ranges outlive it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "paceline/core/tensor_view.hpp"

namespace paceline {

class SlowMomentum {
 public:
  // The first round begins with the parameters as they are. beta = 0: nothing is kept and nothing is done.
  SlowMomentum(const std::vector<TensorView>& parameters, double beta);

  // The parameters are the average that ends a round. `rate` is asked only if there is something to do.
  void end_round(const std::function<double()>& rate);

 private:
  void keep_parameters();

  const std::vector<TensorView> parameters_;
  const double beta_;
  std::vector<std::byte> before_;  // the parameters at the round's begin
  std::vector<std::byte> momentum_;
};

}  // namespace paceline
