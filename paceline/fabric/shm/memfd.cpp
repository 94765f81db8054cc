#include "paceline/fabric/shm/memfd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "paceline/core/error.hpp"

namespace paceline::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string mebibytes(std::size_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

void check_sealed(const Descriptor& memfd, std::size_t bytes) {
  struct stat status {};
  const int seals = fcntl(memfd.number(), F_GET_SEALS);
  const bool good = seals >= 0 && (seals & kSeals) == kSeals && fstat(memfd.number(), &status) == 0 &&
                    static_cast<std::size_t>(status.st_size) == bytes;
  if (!good) throw Error(Code::refused, "a peer offered memory that is not sealed or not of the size it named");
}

}  // namespace

Descriptor make_memfd(const char* label, std::size_t bytes) {
  Descriptor memfd(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd.valid()) throw system_error("cannot create shared memory", errno);
  const auto size = static_cast<off_t>(bytes);
  if (ftruncate(memfd.number(), size) != 0 || fallocate(memfd.number(), 0, 0, size) != 0) {
    throw system_error("cannot allocate " + mebibytes(bytes) + " of shared memory", errno);
  }
  if (fcntl(memfd.number(), F_ADD_SEALS, kSeals) != 0) throw system_error("cannot seal shared memory", errno);
  return memfd;
}

Mapping::Mapping(const Descriptor& memfd, std::size_t bytes) {
  check_sealed(memfd, bytes);
  // Populated at once: a page fault for every 4 KiB in the middle of a reduction would halve its first speed.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd.number(), 0);
  if (memory == MAP_FAILED) throw system_error("cannot map " + mebibytes(bytes) + " of shared memory", errno);
  memory_ = {static_cast<std::byte*>(memory), bytes};
}

Mapping::~Mapping() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

}  // namespace paceline::shm
