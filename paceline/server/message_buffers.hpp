// MessageBuffers: memory of long messages, kept for the next one. Fresh memory of a megabyte costs a page fault for
// each of its pages and a pass to clear them, which is more than copying the message. Owned by one thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace paceline {

class MessageBuffers {
 public:
  // A message of so many bytes; what is in them is not said.
  std::vector<std::byte> take(std::size_t bytes) {
    if (bytes < kLong || spare_.empty()) return std::vector<std::byte>(bytes);
    std::vector<std::byte> message = std::move(spare_.back());
    spare_.pop_back();
    message.resize(bytes);
    return message;
  }
  void give_back(std::vector<std::byte>&& message) {
    if (message.capacity() >= kLong && spare_.size() < kMost) spare_.push_back(std::move(message));
  }

 private:
  static constexpr std::size_t kLong = 64 << 10;
  static constexpr std::size_t kMost = 8;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace paceline
