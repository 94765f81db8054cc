#include "paceline/launch/sink.hpp"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace paceline {

void Sink::add(std::string_view lines) {
  if (!broken_) queue_.append(lines);
}

void Sink::write_some() {
  // A pipe that polls as writable has room for PIPE_BUF bytes. The descriptor is shared with other processes, so that
  // it cannot be made non-blocking.
  const std::size_t count = std::min<std::size_t>(queue_.size() - written_, PIPE_BUF);
  const ssize_t wrote = ::write(descriptor_, queue_.data() + written_, count);
  if (wrote > 0) written_ += static_cast<std::size_t>(wrote);
  if (wrote < 0 && errno != EINTR && errno != EAGAIN) give_up();
  // Moving what is left to the front costs most when much is left, so that it waits until half is written.
  if (written_ >= queue_.size() - written_) {
    queue_.erase(0, written_);
    written_ = 0;
  }
}

void Sink::give_up() {
  broken_ = true;
  queue_.clear();
  written_ = 0;
}

bool same_file(int a, int b) {
  struct stat left = {};
  struct stat right = {};
  if (fstat(a, &left) != 0 || fstat(b, &right) != 0) return false;
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

}  // namespace paceline
