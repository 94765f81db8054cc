// Who makes which family of models; make_model chooses among them. Each is in the file of its family.
#pragma once

#include <algorithm>

#include "paceline/torch/models.hpp"

namespace paceline {

Model make_resnet18(const ModelSpec& spec, const Form& form, const ModelOptions& options);     // resnet.cpp
Model make_vgg16(const ModelSpec& spec, const Form& form, const ModelOptions& options);        // vgg.cpp
Model make_transformer(const ModelSpec& spec, const Form& form, const ModelOptions& options);  // transformer.cpp
Model make_lstm(const ModelSpec& spec, const Form& form, const ModelOptions& options);         // lstm.cpp
Model make_wide_deep(const ModelSpec& spec, const Form& form, const ModelOptions& options);    // wide_deep.cpp
Model make_script(const ModelSpec& spec, const Form& form, const ModelOptions& options);       // script_model.cpp

template <class Net>
Model model_of(Net net) {
  return {.module = net.ptr(), .forward = [net](const torch::Tensor& input) mutable { return net->forward(input); }};
}

// Below this, resnet18 and vgg16 are built as is usual for CIFAR's images, from this on as for ImageNet's.
inline constexpr int kLeastLargeSide = 64;
inline bool is_small(const Shape& shape) { return std::min(shape.height, shape.width) < kLeastLargeSide; }

}  // namespace paceline
