// CovarianceNoise: gives a large batch the gradient noise of a small one (Wen, Luk, Gazeau, Zhang, Chan & Ba, "An
// Empirical Study of Stochastic Gradient Descent with Structured Covariance Noise", AISTATS 2020).
//
// With C the covariance of one example's gradient, the mean over M examples has the noise C/M. To the mean over a batch
// of M_large Gaussian noise of covariance (1/M_small - 1/M_large) C is added, which makes it C/M_small:
//   fisher-diag    of C only the diagonal
//   fisher-trace   (tr C / d) I: the same power, the same in all d directions
//
// What C is estimated from. The batch goes through the models in T parts, of all workers together; part p has m_p
// examples and the mean gradient g_p, the whole G examples and the mean g. Of m_p (g_p - g)^2 the expectation is
// C (1 - m_p/G), so that
//   C_ii = (sum over p of m_p g_p,i^2 - G g_i^2) / (T - 1)
// is without bias, also where parts are of different sizes. Its relative deviation is about sqrt(2 / (T - 1)) of a
// coordinate, less of the trace. The noise has the right variance whatever T is, but tails that are heavier than a
// Gaussian's where T is small.
//
// Why not Fisher's matrix itself. The paper names its noise by the Fisher matrix, the second moment E[g g'] of
// examples' gradients, which is C + E[g] E[g]' and close to C where the mean gradient is small beside its noise. A
// small batch's noise is C, and the parts' mean gradients give C directly, while their plain second moment would count
// E[g] E[g]' m_p times. So this is C; labels are those of the data, not drawn from the model.
//
// Price: beside GradientParts, one f32 of squares per parameter, a pass over it per part, one allreduce of it per step
// (its bytes are those of f32 gradients), and drawing one number per parameter, on every rank alike.
//
// The numbers depend on (seed, step, parameter) and on nothing else, and come from additions, products, quotients and
// roots alone, which are the same on every processor: ranks stay alike, and a run that goes on draws what it would have
// drawn. Nothing has to be saved. One thread owns it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/torch/gradient_parts.hpp"
#include "paceline/torch/noise_spec.hpp"

namespace paceline {

class CovarianceNoise final : public PartObserver {
 public:
  // The same parameters as those of GradientParts, in the same order.
  CovarianceNoise(NoiseSpec spec, std::uint64_t seed, std::vector<torch::Tensor> parameters);

  void begin_step() override;
  void begin_part(const Part& part) override;
  void observe(std::size_t parameter, const torch::Tensor& gradient) override;

  // A collective, between finish() and step(), before clipping. Adds nothing in a step that is no larger than the batch
  // to imitate or had only one part: the last one of an epoch can be like that.
  void add(Communicator& communicator, std::int64_t step);

  // Of the last step, the same on all ranks: estimate of tr C, and the expected squared norm of what was added.
  double trace() const { return trace_; }
  double power() const { return power_; }

 private:
  std::span<float> squares_of(std::size_t parameter);
  void keep_variances();
  void add_to(std::size_t parameter, std::int64_t step, double scale);

  const NoiseSpec spec_;
  const std::uint64_t seed_;
  const std::vector<torch::Tensor> parameters_;
  std::vector<std::size_t> first_;  // where each parameter's numbers begin in sums_
  // Of this step: for each coordinate the sum of m g^2 over the parts, which becomes C_ii; then parts and examples.
  std::vector<float> sums_;
  double square_scale_ = 0;  // of the part that is being observed
  std::vector<float> drawn_;
  double trace_ = 0;
  double power_ = 0;
};

}  // namespace paceline
