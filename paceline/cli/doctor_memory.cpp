#include "paceline/cli/doctor_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kPiece = kMiB;  // after which the clock is looked at

// "32768K", of the last-level cache of the first core; 0 if the kernel does not tell.
std::size_t cache_bytes() {
  std::size_t kib = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kib;
  return kib << 10;
}

std::size_t buffer_bytes(std::uint64_t available, int workers) {
  const std::size_t wanted = std::clamp(cache_bytes(), 32 * kMiB, 256 * kMiB);
  const std::size_t room = available / 8 / static_cast<std::size_t>(workers);  // half of a quarter
  return std::max(kMiB, std::min(wanted, room) / kMiB * kMiB);
}

}  // namespace

MemoryCopy::MemoryCopy(std::uint64_t available_bytes, int workers)
    : bytes_(buffer_bytes(available_bytes, workers)), memory_(nullptr) {
  void* memory = mmap(nullptr, 2 * bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw system_error("cannot get memory to copy", errno);
  madvise(memory, 2 * bytes_, MADV_HUGEPAGE);
  memory_ = static_cast<std::byte*>(memory);
  std::memset(memory_, 1, 2 * bytes_);
}

MemoryCopy::~MemoryCopy() { munmap(memory_, 2 * bytes_); }

double MemoryCopy::measure(Duration span) {
  const SteadyClock clock;
  const TimePoint start = clock.now();
  std::size_t copied = 0;
  Duration spent{};
  for (std::size_t at = 0; spent < span; at = (at + kPiece) % bytes_) {
    std::memcpy(memory_ + bytes_ + at, memory_ + at, kPiece);
    copied += kPiece;
    spent = clock.now() - start;
  }
  return static_cast<double>(copied) / seconds(spent) / 1e9;
}

}  // namespace paceline
