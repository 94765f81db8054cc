// What follows the name of data that are one file: FILE, then options, each after a comma: "input.txt,length=64".
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

struct FileSpec {
  std::string file;
  std::map<std::string, std::string> options;

  std::optional<std::string> option(const std::string& key) const;
};

// Options are taken from the end, as long as their keys are known; a file's name may have commas. Error{invalid}, which
// speaks of `name`, if there is no file, if an option comes twice, or if a key is unknown and no such file exists.
FileSpec parse_file_spec(std::string_view text, std::string_view name, std::initializer_list<std::string_view> known);

// "10%" or "0.1", above 0 and below 1; nothing if it is no such thing.
std::optional<double> parse_share(std::string_view text);

}  // namespace paceline
