// Lifeline: the read end of a pipe whose only write end is the launcher's. When the launcher ends, in whatever way, the
// pipe reports it, and this process kills itself, so that no worker outlives its job.
#pragma once

#include <thread>

#include "paceline/fabric/descriptor.hpp"

namespace paceline {

class Lifeline {
 public:
  // Takes over the descriptor and watches it on a thread of its own. Throws Error{invalid} if it is not a pipe.
  explicit Lifeline(int descriptor);
  ~Lifeline();

 private:
  void watch() const;

  Descriptor pipe_;
  Descriptor stop_;
  std::jthread watcher_;
};

}  // namespace paceline
