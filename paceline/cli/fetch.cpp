#include "paceline/cli/fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "paceline/cli/download.hpp"
#include "paceline/cli/unpack.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

std::string path_in(const FetchOptions& options, const std::string& name) {
  return (std::filesystem::path(options.to) / name).string();
}

bool has_size(const std::string& path, std::uint64_t bytes) {
  std::error_code problem;
  return std::filesystem::is_regular_file(path, problem) && std::filesystem::file_size(path, problem) == bytes &&
         !problem;
}

// Unpacked files take their names only when they are complete, so that their length is enough.
bool is_unpacked(const FetchSet& set, const FetchOptions& options) {
  return !set.packed.empty() && std::all_of(set.packed.begin(), set.packed.end(), [&](const PackedFile& file) {
    return has_size(path_in(options, file.name), file.bytes);
  });
}

void fetch_file(const FetchSet& set, const FetchFile& file, const FetchOptions& options) {
  const std::string path = path_in(options, file.name);
  if (has_size(path, file.bytes) && sha256_of(path) == file.sha256) {
    options.say(fmt::format("{} is there already", path));
    return;
  }
  std::string from = options.from.empty() ? set.from : options.from;
  if (!from.ends_with('/')) from += '/';
  download({.url = from + file.name,
            .path = path,
            .bytes = file.bytes,
            .sha256 = file.sha256,
            .progress = [&](std::uint64_t done) { options.progress(file, done); },
            .cancelled = options.cancelled});
  options.say(fmt::format("{}: {} bytes, and their checksum is right", path, file.bytes));
}

void make_target_folder(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem) throw Error(Code::invalid, fmt::format("cannot make the folder {}: {}", path, problem.message()));
}

}  // namespace

void fetch(const FetchSet& set, const FetchOptions& options) {
  make_target_folder(options.to);
  if (is_unpacked(set, options)) {
    options.say(fmt::format("the files of {} are in {} already", set.name, options.to));
    return;
  }
  for (const FetchFile& file : set.files) fetch_file(set, file, options);
  if (set.packed.empty()) return;
  const std::string archive = path_in(options, set.files.front().name);
  unpack(archive, options.to, set.packed, options.cancelled);
  std::error_code ignored;
  std::filesystem::remove(archive, ignored);
  options.say(fmt::format("unpacked {} files", set.packed.size()));
}

}  // namespace paceline
