// What `paceline fetch` knows: data sets, where their files are in public, how long they are and their checksums.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct FetchFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  // in hexadecimal
};

// A file inside an archive; the archive's checksum is enough.
struct PackedFile {
  std::string name;
  std::uint64_t bytes = 0;
};

struct FetchSet {
  std::string name;  // also what --data calls it
  std::string from;  // the address without the file's name
  std::vector<FetchFile> files;
  // Where `files` is one archive, what is taken out of it; the archive is removed then.
  std::vector<PackedFile> packed = {};
};

// Error{invalid} if there is no such set.
FetchSet find_fetch_set(std::string_view name);
std::string fetch_names();  // "mnist, fashion, cifar10"

}  // namespace paceline
