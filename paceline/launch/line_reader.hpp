// LineReader: cuts bytes that come in pieces of any size into lines. A line over the limit comes in parts, so that
// memory stays bounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

class LineReader {
 public:
  explicit LineReader(std::size_t limit) : limit_(limit) {}

  void add(std::string_view bytes) { bytes_.append(bytes); }
  // The next complete line, without its end.
  std::optional<std::string> next() {
    const std::size_t end = bytes_.find('\n', searched_);
    const std::size_t length = std::min(end == std::string::npos ? bytes_.size() : end, limit_);
    if (end == std::string::npos && length < limit_) {
      searched_ = bytes_.size();
      return std::nullopt;
    }
    std::string line = bytes_.substr(0, length);
    bytes_.erase(0, length + (length == end ? 1 : 0));
    searched_ = 0;
    return line;
  }
  // What has no end of its own.
  const std::string& rest() const { return bytes_; }

 private:
  std::size_t limit_;
  std::string bytes_;
  std::size_t searched_ = 0;  // there is no end of line before this
};

}  // namespace paceline
