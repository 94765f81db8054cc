#include "paceline/cli/unpack.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

struct EndArchive {
  void operator()(archive* opened) const { archive_read_free(opened); }
};

// A file under a temporary name until it is complete; removed otherwise.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), stream_(part(), std::ios::binary | std::ios::trunc) {
    if (!stream_) throw system_error("cannot write " + part(), errno);
  }
  ~NewFile() {
    std::error_code ignored;
    if (!complete_) std::filesystem::remove(part(), ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(std::span<const char> bytes) {
    errno = 0;
    if (!stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size())))
      throw system_error("cannot write " + path_, errno);
  }
  void finish() {
    errno = 0;
    stream_.close();
    if (!stream_) throw system_error("cannot write " + path_, errno);
    std::error_code problem;
    std::filesystem::rename(part(), path_, problem);
    if (problem) throw system_error("cannot write " + path_, problem.value());
    complete_ = true;
  }

 private:
  std::string part() const { return path_ + ".part"; }

  std::string path_;
  std::ofstream stream_;
  bool complete_ = false;
};

class Unpacking {
 public:
  Unpacking(const std::string& path, const std::function<bool()>& cancelled)
      : path_(path), cancelled_(cancelled), archive_(archive_read_new()), block_(kBlock) {
    archive_read_support_filter_gzip(archive_.get());
    archive_read_support_format_tar(archive_.get());
    if (archive_read_open_filename(archive_.get(), path.c_str(), kBlock) != ARCHIVE_OK) fail();
  }

  // The name of the next plain file, without its folders.
  std::optional<std::string> next() {
    for (;;) {
      const int result = archive_read_next_header(archive_.get(), &entry_);
      if (result == ARCHIVE_EOF) return std::nullopt;
      if (result != ARCHIVE_OK) fail();
      const char* name = archive_entry_pathname(entry_);
      const bool plain = archive_entry_filetype(entry_) == AE_IFREG && archive_entry_hardlink(entry_) == nullptr;
      if (plain && name != nullptr) return std::filesystem::path(name).filename().string();
    }
  }

  void extract(const PackedFile& file, const std::string& to) {
    NewFile out(to);
    std::uint64_t done = 0;
    while (const std::size_t got = read()) {
      done += got;
      if (done > file.bytes) break;
      out.append(std::span(block_).first(got));
      if (cancelled_()) throw Error(Code::cancelled, fmt::format("interrupted while {} was unpacked", path_));
    }
    if (done != file.bytes) {
      throw Error(Code::system,
                  fmt::format("{} in {} does not have the {} bytes that it should have", file.name, path_, file.bytes));
    }
    out.finish();
  }

 private:
  std::size_t read() {
    const la_ssize_t got = archive_read_data(archive_.get(), block_.data(), block_.size());
    if (got < 0) fail();
    return static_cast<std::size_t>(got);
  }
  [[noreturn]] void fail() const {
    throw Error(Code::system, fmt::format("cannot unpack {}: {}", path_, archive_error_string(archive_.get())));
  }

  const std::string path_;
  const std::function<bool()>& cancelled_;
  std::unique_ptr<archive, EndArchive> archive_;
  archive_entry* entry_ = nullptr;
  std::vector<char> block_;
};

}  // namespace

void unpack(const std::string& archive, const std::string& folder, const std::vector<PackedFile>& files,
            const std::function<bool()>& cancelled) {
  Unpacking unpacking(archive, cancelled);
  std::set<std::string> done;
  while (const auto name = unpacking.next()) {
    const auto file = std::find_if(files.begin(), files.end(), [&](const PackedFile& f) { return f.name == *name; });
    if (file == files.end()) continue;
    unpacking.extract(*file, (std::filesystem::path(folder) / file->name).string());
    done.insert(file->name);
  }
  for (const PackedFile& file : files) {
    if (!done.contains(file.name))
      throw Error(Code::system, fmt::format("there is no file {} in {}", file.name, archive));
  }
}

}  // namespace paceline
