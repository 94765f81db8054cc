#include "paceline/record/checkpoint_files.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/record/atomic_file.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Parts = std::span<const std::span<const std::byte>>;

constexpr std::string_view kFormat = "paceline checkpoint ";
constexpr int kVersion = 1;
constexpr int kVersionWithRows = 2;  // whose readers must not leave them out
constexpr std::string_view kSuffix = ".ckpt";
constexpr std::string_view kRowsSuffix = ".rows";
// In a header without spaces this stands only before the checksum: inside a string its quotes would be escaped.
constexpr std::string_view kChecksumKey = "\"checksum\":\"";
constexpr std::string_view kNoChecksum = "00000000000000000000000000000000";
constexpr int kMaxStateDepth = 64;
constexpr const char* kForeign = "it is not a paceline checkpoint; name a file that paceline saved";

std::string file_name(std::int64_t step, std::string_view suffix = kSuffix) {
  return fmt::format("step-{:09}{}", step, suffix);
}

std::optional<std::int64_t> parse_step(std::string_view text) {
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

// Of exactly the names that save gives; a folder may hold anything else.
std::optional<std::int64_t> step_of(std::string_view name, std::string_view suffix = kSuffix) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() < prefix.size() + suffix.size()) return std::nullopt;
  const auto step = parse_step(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  return step && file_name(*step, suffix) == name ? step : std::nullopt;
}

bool is_left_over(std::string_view name) {
  const std::size_t mark = name.find(kTemporaryMark);
  return mark != std::string_view::npos &&
         (step_of(name.substr(0, mark)) || step_of(name.substr(0, mark), kRowsSuffix));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_regular_file(unknown)) names.push_back(entry->path().filename().string());
  }
  if (error == std::errc::no_such_file_or_directory) return {};
  if (error) throw system_error("cannot list the checkpoints in " + folder, error.value());
  return names;
}

// Newest first.
std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(folder)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::string path_in(const std::string& folder, std::string_view name) { return (fs::path(folder) / name).string(); }

std::string checksum(Parts parts) {
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  for (const auto part : parts) XXH3_128bits_update(&hash, part.data(), part.size());
  const XXH128_hash_t sum = XXH3_128bits_digest(&hash);
  return fmt::format("{:016x}{:016x}", sum.high64, sum.low64);
}

// Empty if the file has no place for a checksum where save puts it.
std::string checksum_of_file(std::string_view bytes) {
  const std::size_t key = bytes.find(kChecksumKey);
  if (key == std::string_view::npos || bytes.size() - key < kChecksumKey.size() + kNoChecksum.size()) return {};
  const std::size_t digits = key + kChecksumKey.size();
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(bytes.substr(0, digits))),
                                              std::as_bytes(std::span(kNoChecksum)),
                                              std::as_bytes(std::span(bytes.substr(digits + kNoChecksum.size())))};
  return checksum(parts);
}

json parse_state(const std::string& text) {
  return json::parse(text, [](int depth, json::parse_event_t, json&) {
    if (depth > kMaxStateDepth) throw Error(Code::invalid, "it is nested more than 64 levels deep");
    return true;
  });
}

std::string state_text(std::int64_t step, const json& state) try {
  std::string text = state.dump();
  if (parse_state(text) == state) return text;
  throw Error(Code::invalid, "it holds something that JSON cannot hold, such as NaN or an infinity");
} catch (const std::exception& error) {
  throw Error(Code::invalid, fmt::format("cannot save the state of step {}: {}", step, error.what()));
}

const std::string* find(const SafetensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? nullptr : &found->second;
}

// Why this is not a checkpoint that save wrote; empty if it is one.
std::string fault(const SafetensorsFile& file) {
  const std::string* format = find(file, "format");
  if (!format || !format->starts_with(kFormat)) return kForeign;
  const auto version = parse_step(std::string_view(*format).substr(kFormat.size()));
  if (version && *version > kVersionWithRows)
    return fmt::format("it is of the later format {}; use a newer paceline", *version);
  const std::string* stored = find(file, "checksum");
  if (!stored || *stored != checksum_of_file(file.bytes()))
    return "its checksum does not match, it is damaged; use an earlier one";
  const std::string* step = find(file, "step");
  if (version != (find(file, "rows") ? kVersionWithRows : kVersion) || !step || !parse_step(*step) ||
      !find(file, "state")) {
    return kForeign;
  }
  return {};
}

std::string rows_beside(const std::string& path) {
  return path.substr(0, path.size() - std::min(path.size(), kSuffix.size())) + std::string(kRowsSuffix);
}

// Why the rows that a checkpoint needs are not those beside it; empty if they are.
std::string fault_of_rows(const std::string& rows, const std::string& checksum) try {
  if (checksum_of_rows(rows) == checksum) return {};
  return fmt::format("{} is of another checkpoint; use an earlier one", rows);
} catch (const Error& error) {
  return error.what();
}

}  // namespace

CheckpointFiles::CheckpointFiles(std::string folder, int keep)
    : folder_(std::move(folder)), keep_(static_cast<std::size_t>(std::max(keep, 1))) {
  if (keep < 1) throw Error(Code::invalid, fmt::format("cannot keep {} checkpoints; keep at least 1", keep));
}

void CheckpointFiles::save(std::int64_t step, const json& state, std::span<const NamedArray> arrays,
                           const std::string& rows) {
  if (step < 0) throw Error(Code::invalid, fmt::format("cannot save step {}; steps start at 0", step));
  std::map<std::string, std::string> metadata = {
      {"format", fmt::format("{}{}", kFormat, rows.empty() ? kVersion : kVersionWithRows)},
      {"step", fmt::format("{}", step)},
      {"state", state_text(step, state)},
      {"checksum", std::string(kNoChecksum)}};
  if (!rows.empty()) metadata["rows"] = rows;
  std::string header = safetensors_header(arrays, metadata);
  const auto parts = safetensors_parts(header, arrays);
  // In place and of the same length: `parts` sees the digits.
  const std::string digits = checksum(parts);
  std::copy(digits.begin(), digits.end(), header.begin() + header.find(kChecksumKey) + kChecksumKey.size());

  make_folder(folder_);
  remove_left_overs(step);  // first, for they take space
  write_atomically(path_in(folder_, file_name(step)), parts);
  remove_before(step);
}

RowsFileWriter CheckpointFiles::begin_rows(std::int64_t step) const {
  make_folder(folder_);
  remove_left_overs(step);
  return RowsFileWriter(rows_path(step));
}

std::string CheckpointFiles::rows_path(std::int64_t step) const {
  return path_in(folder_, file_name(step, kRowsSuffix));
}

// What cannot be removed stays: the checkpoint is safe, and the next save tries again.
// Rows without a checkpoint are left over too, unless they wait for the one that is being saved.
void CheckpointFiles::remove_left_overs(std::int64_t step) const {
  std::error_code stays;
  for (const std::string& name : names_in(folder_)) {
    const auto rows = step_of(name, kRowsSuffix);
    const bool alone = rows && *rows != step && !fs::exists(path_in(folder_, file_name(*rows)));
    if (alone || is_left_over(name)) fs::remove(path_in(folder_, name), stays);
  }
}

void CheckpointFiles::remove_before(std::int64_t step) const {
  std::size_t kept = 0;
  std::error_code stays;
  for (const std::int64_t other : steps_in(folder_)) {
    if (other > step || ++kept <= keep_) continue;
    fs::remove(path_in(folder_, file_name(other)), stays);
    fs::remove(path_in(folder_, file_name(other, kRowsSuffix)), stays);
  }
}

std::vector<std::string> CheckpointFiles::list() const {
  std::vector<std::string> paths;
  for (const std::int64_t step : steps_in(folder_)) paths.push_back(path_in(folder_, file_name(step)));
  return paths;
}

Checkpoint CheckpointFiles::load(const std::string& path) const {
  SafetensorsFile file(path);
  std::string wrong = fault(file);
  const std::string* rows = find(file, "rows");
  if (wrong.empty() && rows != nullptr) wrong = fault_of_rows(rows_beside(path), *rows);
  if (!wrong.empty()) throw Error(Code::invalid, fmt::format("{} cannot be loaded: {}", path, wrong));
  try {
    const std::int64_t step = parse_step(*find(file, "step")).value();
    json state = parse_state(*find(file, "state"));
    std::string beside = rows != nullptr ? rows_beside(path) : std::string();
    return {
        .step = step, .state = std::move(state), .arrays = std::move(file), .path = path, .rows = std::move(beside)};
  } catch (const std::exception& error) {
    throw Error(Code::invalid, fmt::format("{} cannot be loaded: its state is not good: {}", path, error.what()));
  }
}

std::optional<Checkpoint> CheckpointFiles::load_latest(const std::function<void(const std::string&)>& refuse) const {
  for (const std::string& path : list()) {
    try {
      return load(path);
    } catch (const Error& error) {
      if (refuse) refuse(error.what());
    }
  }
  return std::nullopt;
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace paceline
