// What each layer of a model costs: for splitting a model, and for predicting how long it takes.
#pragma once

#include <vector>

#include "paceline/record/layer_cost.hpp"
#include "paceline/torch/models.hpp"

namespace paceline {

// In the order in which one example reaches the layers; those that it does not reach come last. Floating-point
// operations are those of convolutions, matrix products and recurrent layers, a multiplication and an addition counting
// as two; what works element by element counts nothing. A product of activations (attention) stands under the name of
// the module around the layer before it ("h.0.attn").
//
// The example goes through the model, which is in the mode that it was in afterwards; so are its buffers.
std::vector<LayerCost> layer_costs(const Model& model, const Form& form);

}  // namespace paceline
