#include "paceline/launch/pipe_reader.hpp"

#include <fcntl.h>

#include <array>

namespace paceline {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
// The most that a pipe holds by default limits: a descendant that escaped and writes on must not keep us.
constexpr int kReadsAtEnd = 16;

}  // namespace

PipeReader::PipeReader(Descriptor pipe) : pipe_(std::move(pipe)) { fcntl(pipe_.number(), F_SETFL, O_NONBLOCK); }

void PipeReader::watch(PollSet& set) const {
  if (pipe_.valid()) set.add(pipe_.number(), POLLIN);
}

void PipeReader::transfer(const PollSet& set, const Take& take) {
  if (pipe_.valid() && set.ready(pipe_.number())) read_some(take);
}

// False when there is nothing more to read now, or ever.
bool PipeReader::read_some(const Take& take) {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = read(pipe_.number(), buffer.data(), buffer.size());
  if (got == 0) pipe_ = Descriptor();  // closed by the child, which may live on
  if (got > 0) take({buffer.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

void PipeReader::finish(const Take& take) {
  for (int i = 0; i < kReadsAtEnd && pipe_.valid() && read_some(take); ++i) {
  }
  pipe_ = Descriptor();
}

}  // namespace paceline
