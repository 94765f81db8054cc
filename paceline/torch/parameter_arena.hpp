// ParameterArena: parameters and their gradients in two flat ranges of memory that other ranks can map, one pair of
// ranges per element type, in 64-byte aligned slots. Parameters keep their own tensors; only the memory beneath moves.
//
// Aliasing is an optimisation, never an assumption: torch code can give a parameter or a gradient other memory at any
// time (zero_grad(true), torch::load, backward with create_graph). `adopt_…` compare addresses and bring what has left
// back, by a copy. One thread owns an arena. The Endpoint outlives it; on destruction tensors get memory of their own.
//
// Gradients can be there several times, in *generations* that are laid out alike: while one travels to the other ranks,
// backward writes the next. What is said of gradients here is said of those of one generation, the home of all .grad.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/core/tensor_view.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

struct ArenaTensor {
  std::string name;
  torch::Tensor parameter;
};

class ParameterArena {
 public:
  static constexpr std::size_t kAlign = 64;

  // Moves the parameters' contents in; their gradients are zero. `order` lists the tensors as they are to lie.
  ParameterArena(Endpoint& endpoint, std::vector<ArenaTensor> tensors, const std::vector<std::size_t>& order,
                 std::size_t generations = 1);
  ~ParameterArena();
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  // Makes another generation the home: each .grad is that one's from now on, whatever it was. No copy.
  void turn_to(std::size_t generation);
  void zero_gradients();
  std::size_t home() const { return home_; }
  std::size_t generations() const { return generations_; }
  std::size_t generation_bytes() const;

  // Lays all tensors out anew, contents included. Between steps only: no other rank may be using the gradients.
  void lay_out(const std::vector<std::size_t>& order);

  // True if the tensor had left. Throws Error{invalid} if its type or shape has changed.
  bool adopt_parameter(std::size_t index);
  // The gradient as autograd left it: brought into the slot if it lies elsewhere. An undefined one becomes zeros.
  bool adopt_gradient(std::size_t index);
  bool gradient_is_home(std::size_t index) const;
  // For a moment of stock optimizers that skip parameters without a gradient.
  void hide_gradient(std::size_t index);
  void show_gradient(std::size_t index);

  std::size_t size() const { return slots_.size(); }
  const std::string& name(std::size_t index) const { return slots_[index].name; }
  const torch::Tensor& parameter(std::size_t index) const { return slots_[index].parameter; }
  DType dtype(std::size_t index) const { return regions_[slots_[index].region].dtype; }
  TensorView parameter_view(std::size_t index) const;
  TensorView gradient_view(std::size_t index) const;
  // From the first tensor's slot to the end of the last one's; both of one type, in the order they lie in.
  TensorView gradient_range(std::size_t first, std::size_t last) const;
  // All parameters, and all gradients, of each type.
  std::vector<TensorView> parameter_ranges() const;
  std::vector<TensorView> gradient_ranges() const;
  std::vector<TensorView> gradient_ranges_of_all_generations() const;

 private:
  struct Slot {
    std::string name;
    torch::Tensor parameter;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    std::size_t region = 0;
    std::size_t offset = 0;
    std::size_t bytes = 0;                 // without padding
    torch::Tensor data;                    // over the parameter's slot
    std::vector<torch::Tensor> gradients;  // by generation
  };
  struct Region {
    DType dtype = DType::f32;
    std::size_t bytes = 0;
    Arena parameters;
    std::vector<Arena> gradients;  // by generation
  };
  void place(const std::vector<std::size_t>& order);
  void make_tensors(Slot& slot);
  std::byte* parameter_memory(const Slot& slot) const;
  std::byte* gradient_memory(const Slot& slot, std::size_t generation) const;
  torch::Tensor& home_of(Slot& slot) { return slot.gradients[home_]; }

  const std::size_t generations_;
  std::size_t home_ = 0;
  std::vector<Slot> slots_;
  std::vector<Region> regions_;
};

}  // namespace paceline
