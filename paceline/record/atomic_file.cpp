#include "paceline/record/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return "; free some space or choose another folder";
    case EACCES:
    case EPERM:
    case EROFS: return "; choose a place that this user may use";
    default: return "";
  }
}

Error failure(std::string_view what, std::string_view path, int error_number) {
  return Error(Code::system, fmt::format("cannot {} {}: {}{}", what, path,
                                         std::generic_category().message(error_number), advice(error_number)));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

void sync_folder(const fs::path& folder) {
  const std::string name = folder.empty() ? "." : folder.string();
  const Descriptor file(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A file system that cannot sync a folder says EINVAL; there is nothing more to be had from it.
  if (file.number() < 0 || (::fsync(file.number()) != 0 && errno != EINVAL)) throw failure("sync", name, errno);
}

}  // namespace

// Opened exclusively, so that neither a thread nor a process with the same number on another host writes the same one.
AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  std::error_code unknown;
  if (const auto status = fs::status(path, unknown); fs::exists(status) && !fs::is_regular_file(status)) {
    throw Error(Code::invalid,
                fmt::format("cannot write {}: it is there and is not a file; choose another name", path));
  }
  for (int i = 0; number_ < 0; ++i) {
    name_ = fmt::format("{}{}{}-{}", path, kTemporaryMark, ::getpid(), i);
    number_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (number_ < 0 && errno != EEXIST) throw failure("write", path, errno);
  }
}

AtomicFile::~AtomicFile() {
  ::close(number_);
  if (!published_) ::unlink(name_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(number_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw failure("write", path_, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::publish() {
  if (::fsync(number_) != 0) throw failure("write", path_, errno);
  if (::rename(name_.c_str(), path_.c_str()) != 0) throw failure("write", path_, errno);
  published_ = true;
  sync_folder(fs::path(path_).parent_path());
}

void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  AtomicFile file(path);
  for (const auto part : parts) file.write(part);
  file.publish();
}

void write_atomically(const std::string& path, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  write_atomically(path, std::span(&part, 1));
}

void make_folder(const std::string& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) return;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) make_folder(parent.string());
  if (::mkdir(path.c_str(), 0777) == 0) return sync_folder(parent);
  const int error_number = errno;
  // Another process may have made it just now; and "a/b/" has been made as its own parent "a/b".
  if (!fs::is_directory(path, unknown)) throw failure("make the folder", path, error_number);
}

void require_writable_folder(const std::string& path) {
  if (path.empty()) throw Error(Code::invalid, "the name of the folder is empty; name one that can be written to");
  try {
    make_folder(path);
    AtomicFile(path + "/write-check").write(std::as_bytes(std::span("x")));
  } catch (const Error& error) {
    throw Error(Code::invalid, fmt::format("the folder {} cannot be used: {}", path, error.what()));
  }
}

std::string read_file(const std::string& path) try {
  // Asked before it is opened, because opening a pipe waits for its writer.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw failure("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw Error(Code::system, fmt::format("cannot read {}: it is not a file", path));
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) throw failure("read", path, errno);

  // One byte more than the size, so that the end is seen without growing; files of /proc have size 0 and grow.
  std::string text(static_cast<std::size_t>(status.st_size) + 1, '\0');
  std::size_t length = 0;
  for (;;) {
    const ssize_t got = ::read(file.number(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failure("read", path, errno);
    length += static_cast<std::size_t>(got);
    if (got == 0) break;
    if (length == text.size()) text.resize(2 * length + 4096);
  }
  text.resize(length);
  return text;
} catch (const std::bad_alloc&) {
  throw Error(Code::system, fmt::format("cannot read {}: there is not enough memory for it", path));
} catch (const std::length_error&) {
  throw Error(Code::system, fmt::format("cannot read {}: it is larger than any memory", path));
}

}  // namespace paceline
