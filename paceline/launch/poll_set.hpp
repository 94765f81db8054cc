// PollSet: one round of poll(2) over descriptors that are named anew each round.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "paceline/core/clock.hpp"

namespace paceline {

class PollSet {
 public:
  void add(int descriptor, short events) { entries_.push_back({descriptor, events, 0}); }

  // Returns at the latest when `now` would reach `deadline`; earlier when a signal handler ran.
  void wait(TimePoint now, TimePoint deadline) {
    int milliseconds = -1;
    if (deadline != kNever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
      milliseconds = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    }
    if (poll(entries_.data(), entries_.size(), milliseconds) <= 0) return;
    for (const pollfd& entry : entries_) ready_[entry.fd] = entry.revents != 0;
  }
  // Something can be read or written, or an error be found by trying.
  bool ready(int descriptor) const {
    const auto found = ready_.find(descriptor);
    return found != ready_.end() && found->second;
  }

 private:
  std::vector<pollfd> entries_;
  std::unordered_map<int, bool> ready_;
};

}  // namespace paceline
