// One file from an HTTP server to the disk, checked. Uses libcurl, which takes proxies from the usual variables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace paceline {

// What was fetched so far is kept under the file's name with this added, and the next call goes on from there.
inline constexpr const char* kPartSuffix = ".part";

struct DownloadOptions {
  std::string url;
  std::string path;
  std::uint64_t bytes = 0;  // how long the file is
  std::string sha256;       // in hexadecimal
  std::function<void(std::uint64_t done)> progress = [](std::uint64_t) {};
  std::function<bool()> cancelled = [] { return false; };
};

// `path` is there in full with the right checksum, or not at all. Error{system} in one sentence: no connection, the
// server's refusal, a full disk, a wrong checksum (what was fetched is then removed). Error{cancelled}.
void download(const DownloadOptions& options);

// Of a file that is there; empty if it cannot be read.
std::string sha256_of(const std::string& path);

}  // namespace paceline
