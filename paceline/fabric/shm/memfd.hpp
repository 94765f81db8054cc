// Memory shared between processes: a memfd, allocated in full (so that no later touch can fail), sealed against changes
// of its size (so that no peer can take pages away), and mappings of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "paceline/fabric/descriptor.hpp"

namespace paceline::shm {

// Throws Error{system}.
Descriptor make_memfd(const char* label, std::size_t bytes);

// Owns a mapping of a whole memfd.
class Mapping {
 public:
  Mapping() = default;
  // Throws Error{system} if it cannot be mapped, Error{refused} if it is not a sealed memfd of this size.
  Mapping(const Descriptor& memfd, std::size_t bytes);
  Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Mapping();

  std::span<std::byte> memory() const { return memory_; }

 private:
  std::span<std::byte> memory_;
};

}  // namespace paceline::shm
