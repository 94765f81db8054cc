#include "paceline/record/layer_cost.hpp"

namespace paceline {
namespace {

constexpr double kBytesPerParameter = 4;

double ring_seconds(double parameters, int workers, double gigabits) {
  const double bytes = 2 * kBytesPerParameter * parameters * (workers - 1) / workers;
  return bytes * 8 / (gigabits * 1e9);
}

LayerShare share_of(const LayerCost& layer, const LayerCost& whole, int workers, double compute_seconds) {
  const auto parameters = static_cast<double>(layer.parameters);
  LayerShare share{.gradient = parameters / static_cast<double>(whole.parameters),
                   .compute_seconds = compute_seconds * layer.flops / whole.flops};
  for (std::size_t i = 0; i < kLinkGigabits.size(); ++i) {
    const double sending = ring_seconds(parameters, workers, kLinkGigabits[i]);
    share.communicate[i] = sending / (sending + share.compute_seconds);
  }
  return share;
}

}  // namespace

LayerShares layer_shares(const std::vector<LayerCost>& layers, int workers, double compute_seconds) {
  LayerCost whole;
  for (const LayerCost& layer : layers) {
    whole.parameters += layer.parameters;
    whole.flops += layer.flops;
  }
  LayerShares shares;
  for (const LayerCost& layer : layers) shares.layers.push_back(share_of(layer, whole, workers, compute_seconds));
  shares.whole = share_of(whole, whole, workers, compute_seconds);
  return shares;
}

}  // namespace paceline
