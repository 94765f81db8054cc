// Sink: the launcher's standard output or error. Lines queue here and are written when the descriptor takes them, so
// that a reader who is slow, or gone, never blocks the launcher's loop.
#pragma once

#include <string>
#include <string_view>

namespace paceline {

class Sink {
 public:
  explicit Sink(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }
  // Lines are written whole and in this order.
  void add(std::string_view lines);
  // The descriptor is ready. Writes at most as much as it certainly takes without blocking.
  void write_some();

  bool empty() const { return queue_.size() == written_; }
  // Enough is queued: whoever feeds this should wait.
  bool full() const { return queue_.size() - written_ >= kEnough; }
  // Drops what is queued and whatever is added later.
  void give_up();
  // The reader is gone. What is added is dropped from now on.
  bool broken() const { return broken_; }

 private:
  static constexpr std::size_t kEnough = 1024 * 1024;

  int descriptor_;
  std::string queue_;
  std::size_t written_ = 0;  // of the queue
  bool broken_ = false;
};

// Standard output and error are often one file (2>&1, a terminal); they must then be one sink, or their lines would
// tear.
bool same_file(int a, int b);

}  // namespace paceline
