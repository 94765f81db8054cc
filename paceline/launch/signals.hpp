// Signals: blocks the signals that the launcher passes on and gives them out one by one.
#pragma once

#include <signal.h>

#include <optional>

#include "paceline/fabric/descriptor.hpp"

namespace paceline {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.number(); }
  // The next signal that has arrived, if any.
  std::optional<int> next();
  // What was blocked before, for those who come after us.
  const sigset_t& original_mask() const { return original_; }

 private:
  sigset_t original_;
  sigset_t blocked_;
  Descriptor descriptor_;
};

}  // namespace paceline
