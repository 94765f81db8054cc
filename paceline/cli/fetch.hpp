// Fetches a data set: its files into a folder, checked, and unpacked where they are an archive. What is there already
// and right is left alone.
#pragma once

#include <functional>
#include <string>

#include "paceline/cli/fetch_catalogue.hpp"

namespace paceline {

struct FetchOptions {
  std::string to;         // a folder; made if it is not there
  std::string from = {};  // instead of the set's own address
  std::function<void(const std::string& line)> say = [](const std::string&) {};
  std::function<void(const FetchFile& file, std::uint64_t done)> progress = [](const FetchFile&, std::uint64_t) {};
  std::function<bool()> cancelled = [] { return false; };
};

// Every file of the set is in the folder afterwards. Error{system} or Error{cancelled} in one sentence otherwise; no
// file is there in part then, except under its name and .part, which the next call goes on with.
void fetch(const FetchSet& set, const FetchOptions& options);

}  // namespace paceline
