// LinePrefix: turns a worker's output, which comes in pieces of any size, into whole lines that begin with its rank.
#pragma once

#include <string>
#include <string_view>

namespace paceline {

class LinePrefix {
 public:
  // A line longer than this is shown in parts, each on a line of its own, so that memory stays bounded and other
  // workers' lines cannot get into it.
  static constexpr std::size_t kMaxLine = 64 * 1024;

  explicit LinePrefix(std::string prefix) : prefix_(std::move(prefix)) {}

  // The lines that `bytes` completes.
  std::string feed(std::string_view bytes);
  // The last line, if it has no end of its own.
  std::string finish();

 private:
  std::string prefix_;
  std::string line_;  // not complete yet
};

}  // namespace paceline
