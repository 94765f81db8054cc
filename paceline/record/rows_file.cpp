#include "paceline/record/rows_file.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <span>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"
#include "paceline/record/atomic_file.hpp"

namespace paceline {
namespace {

constexpr std::string_view kBegin = "paceline rows 1\n";
constexpr std::string_view kFamily = "paceline rows ";
constexpr std::size_t kLengths = sizeof(std::uint32_t) + sizeof(std::uint64_t);

// Of what has been written or read so far.
class RunningChecksum {
 public:
  RunningChecksum() { XXH3_128bits_reset(&hash_); }
  void add(std::string_view bytes) { XXH3_128bits_update(&hash_, bytes.data(), bytes.size()); }
  XXH128_hash_t value() const { return XXH3_128bits_digest(&hash_); }

 private:
  XXH3_state_t hash_;
};

std::string packed(XXH128_hash_t sum) { return Packer().number(sum.low64).number(sum.high64).take(); }
std::string digits(XXH128_hash_t sum) { return fmt::format("{:016x}{:016x}", sum.high64, sum.low64); }

std::string lengths(std::size_t name, std::size_t content) {
  return Packer().number(static_cast<std::uint32_t>(name)).number(static_cast<std::uint64_t>(content)).take();
}

}  // namespace

// ---- writing

struct RowsFileWriter::State {
  explicit State(const std::string& path) : file(path) {}
  void write(std::string_view bytes) {
    sum.add(bytes);
    file.write(std::as_bytes(std::span(bytes)));
  }

  AtomicFile file;
  RunningChecksum sum;
};

RowsFileWriter::RowsFileWriter(const std::string& path) : state_(std::make_unique<State>(path)) {
  state_->write(kBegin);
}
RowsFileWriter::RowsFileWriter(RowsFileWriter&&) noexcept = default;
RowsFileWriter::~RowsFileWriter() = default;

void RowsFileWriter::append(std::string_view name, std::string_view content) {
  CHECK(!name.empty(), "a record has a name");
  state_->write(lengths(name.size(), content.size()));
  state_->write(name);
  state_->write(content);
}

std::string RowsFileWriter::publish() {
  const XXH128_hash_t sum = state_->sum.value();
  const std::string bytes = packed(sum);
  state_->write(lengths(0, bytes.size()));
  state_->write(bytes);
  state_->file.publish();
  return digits(sum);
}

// ---- reading

struct RowsFileReader::State {
  explicit State(const std::string& of) : path(of) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) refuse("it is not there");
    if (!std::filesystem::is_regular_file(status)) refuse("it is not a file");
    left = std::filesystem::file_size(path, error);
    file.open(path, std::ios::binary);
    if (error || !file) refuse("this user may not read it");
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(Code::invalid, fmt::format("{} cannot be loaded: {}", path, why));
  }
  // Nothing is made room for that the file cannot hold.
  std::string read(std::uint64_t bytes) {
    if (bytes > left) refuse("it is truncated; use an earlier one");
    std::string got(static_cast<std::size_t>(bytes), '\0');
    file.read(got.data(), static_cast<std::streamsize>(bytes));
    if (!file) refuse("it cannot be read to its end");
    left -= bytes;
    return got;
  }

  const std::string path;
  std::ifstream file = {};
  std::uint64_t left = 0;  // bytes that were not read
  RunningChecksum sum = {};
  std::string checksum = {};  // when all was read
};

RowsFileReader::RowsFileReader(const std::string& path) : state_(std::make_unique<State>(path)) {
  const std::string begin = state_->read(std::min<std::uint64_t>(kBegin.size(), state_->left));
  if (!begin.starts_with(kFamily)) state_->refuse("it does not hold rows of tables; name a file that paceline saved");
  if (begin != kBegin) state_->refuse("it is of a later format; use a newer paceline");
  state_->sum.add(begin);
}
RowsFileReader::~RowsFileReader() = default;

std::optional<RowsFileReader::Record> RowsFileReader::next() {
  if (!state_->checksum.empty()) return std::nullopt;
  const std::string lengths = state_->read(kLengths);
  Unpacker reader(lengths);
  const auto name = reader.number<std::uint32_t>();
  const auto content = reader.number<std::uint64_t>();
  if (name == 0) {
    const XXH128_hash_t sum = state_->sum.value();
    if (content != sizeof sum || state_->left != sizeof sum || state_->read(content) != packed(sum))
      state_->refuse("its checksum does not match, it is damaged; use an earlier one");
    state_->checksum = digits(sum);
    return std::nullopt;
  }
  Record record{.name = state_->read(name), .content = state_->read(content)};
  for (const std::string_view part :
       {std::string_view(lengths), std::string_view(record.name), std::string_view(record.content)})
    state_->sum.add(part);
  return record;
}

const std::string& RowsFileReader::checksum() const { return state_->checksum; }

std::string checksum_of_rows(const std::string& path) {
  RowsFileReader reader(path);
  while (reader.next()) {
  }
  return reader.checksum();
}

}  // namespace paceline
