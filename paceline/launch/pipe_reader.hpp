// PipeReader: the launcher's end of a pipe that a child writes to. Never blocks.
#pragma once

#include <functional>
#include <string_view>

#include "paceline/fabric/descriptor.hpp"
#include "paceline/launch/poll_set.hpp"

namespace paceline {

class PipeReader {
 public:
  using Take = std::function<void(std::string_view bytes)>;

  explicit PipeReader(Descriptor pipe);

  void watch(PollSet& set) const;
  void transfer(const PollSet& set, const Take& take);
  // Takes what is left in the pipe and closes it, whoever else may still hold its other end.
  void finish(const Take& take);

 private:
  bool read_some(const Take& take);

  Descriptor pipe_;
};

}  // namespace paceline
