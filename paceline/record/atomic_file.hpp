// Files that are there whole or not at all, and the folders they go to. Plain functions, thread-safe; two writers of
// one path do not disturb each other, the last one wins.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace paceline {

// A new file beside `path`, which is gone again with this object unless it took the path's name: for files that are
// written piece by piece. What is not a plain file (a folder, a device) is Error{invalid}; a failure (full disk, no
// permission) is Error{system}; both name the path. Owned by one thread.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Synced and renamed, and its folder synced: once, at the end.
  void publish();

 private:
  const std::string path_;
  std::string name_;
  int number_ = -1;
  bool published_ = false;
};

// Written beside, synced (file and folder), renamed: a reader sees the old file or the new one, never a part. On any
// failure (full disk, no permission) the temporary file is removed and Error{system} names the path. What is not a
// plain file (a folder, a device) is Error{invalid}: the rename would put a file in its place.
void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_atomically(const std::string& path, std::string_view text);

// A process that is killed while it writes PATH leaves a file behind whose name is PATH, this mark and some digits.
inline constexpr std::string_view kTemporaryMark = ".tmp-";

// Makes a folder and those above it where they are missing, synced; Error{system}.
void make_folder(const std::string& path);
// Checks that a folder can be made and written to, making it; Error{invalid} with one sentence otherwise.
void require_writable_folder(const std::string& path);

std::string read_file(const std::string& path);  // Error{system}

}  // namespace paceline
