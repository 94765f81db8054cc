#include "paceline/launch/line_prefix.hpp"

#include <algorithm>

namespace paceline {

std::string LinePrefix::feed(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const std::string_view window = bytes.substr(0, kMaxLine - line_.size());
    const std::size_t end = window.find('\n');
    line_.append(window.substr(0, end));
    const bool whole = end != std::string_view::npos;
    bytes.remove_prefix(whole ? end + 1 : window.size());
    if (whole || line_.size() == kMaxLine) {
      lines.append(prefix_).append(line_).push_back('\n');
      line_.clear();
    }
  }
  return lines;
}

std::string LinePrefix::finish() {
  if (line_.empty()) return {};
  std::string lines = prefix_ + line_ + '\n';
  line_.clear();
  return lines;
}

}  // namespace paceline
