// The checkpoints of a run in one folder, step-000000123.ckpt and so on. Each is a valid safetensors file whose
// metadata holds
//   format    "paceline checkpoint 1", or 2 with rows
//   step      in decimal
//   state     a JSON text of the caller's
//   checksum  XXH3-128 in hex over the whole file, with these 32 digits taken as zeros: a flipped bit anywhere is found
//   rows      of one that has rows of tables beside it, in step-000000123.rows (rows_file.hpp): that file's checksum
// The checksum is against accidents, not against forgers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/record/rows_file.hpp"
#include "paceline/record/safetensors.hpp"

namespace paceline {

struct Checkpoint {
  std::int64_t step = 0;
  nlohmann::json state;
  SafetensorsFile arrays;
  std::string path;
  std::string rows = {};  // the file of rows that belongs to it, which is good too; empty: it has none
};

// Holds no open file. Any number of readers, but one writer per folder: save removes what looks like the left-overs of
// an earlier one.
class CheckpointFiles {
 public:
  CheckpointFiles(std::string folder, int keep);  // Error{invalid} unless keep >= 1

  // Atomic, and on the disk when it returns; replaces a checkpoint of the same step. Then removes all but this one and
  // the keep-1 before it. Those of later steps stay: after a run went back to an earlier step, they are not ours to
  // judge. A full disk is Error{system} and leaves the folder as it was. Error{invalid} for a state that would come
  // back different: JSON has no NaN and no infinity.
  // `rows`: the checksum of the file that begin_rows has written for this step; empty: there is none.
  void save(std::int64_t step, const nlohmann::json& state, std::span<const NamedArray> arrays,
            const std::string& rows = {});
  // Before save, for a checkpoint with rows: the file that goes beside it. If no save follows, it is removed by the
  // next.
  RowsFileWriter begin_rows(std::int64_t step) const;
  std::string rows_path(std::int64_t step) const;

  // The newest good one. A damaged or foreign file is refused by name: a sentence for each is given to `refuse`, and
  // the one before it is tried. nullopt if there is none.
  std::optional<Checkpoint> load_latest(const std::function<void(const std::string&)>& refuse) const;

  // Any file, in this folder or not. Error{invalid} with the reason: truncated, checksum does not match, not a paceline
  // checkpoint, of a later format; Error{system} if it cannot be read.
  Checkpoint load(const std::string& path) const;

  // The paths of all files that have a checkpoint's name, newest first. Looks into none of them.
  std::vector<std::string> list() const;

 private:
  void remove_left_overs(std::int64_t step) const;
  void remove_before(std::int64_t step) const;

  const std::string folder_;
  const std::size_t keep_;
};

// XXH3-64.
std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace paceline
