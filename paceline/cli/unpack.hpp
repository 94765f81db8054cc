// Files out of a tar archive, compressed with gzip or not. Only what is asked for is written, under the names that were
// asked for: no path of the archive is believed. Uses libarchive.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/cli/fetch_catalogue.hpp"

namespace paceline {

// Each of `files` is a plain file of that name, in whatever folder of the archive, with that length; it is put into
// `folder`, there in full or not at all. Error{system} if one is missing, has another length, or cannot be written.
void unpack(const std::string& archive, const std::string& folder, const std::vector<PackedFile>& files,
            const std::function<bool()>& cancelled);

}  // namespace paceline
