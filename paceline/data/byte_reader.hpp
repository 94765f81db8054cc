// ByteReader: the content of a file that may be compressed with gzip, a piece at a time, so that nobody has to believe
// a header, or to unpack more than was asked for. gzip is recognised by its first two bytes, whatever the file's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct z_stream_s;

namespace paceline {

// Larger files are refused: what is read here ends up in memory, unpacked.
inline constexpr std::size_t kMaxFileBytes = std::size_t{2} << 30;

// The file as it is on disk. Error{invalid} if it cannot be read.
std::vector<std::uint8_t> load_file(const std::string& path);

// `file` in `folder`, as it is or else with .gz; nothing if neither is there.
std::optional<std::string> look_for_file(const std::string& folder, const std::string& file);
// The same, but Error{invalid} if neither is there.
std::string find_file(const std::string& folder, const std::string& file);
// Error{invalid} unless `folder`, where `name` is to be read from, is one.
void require_folder(const std::string& folder, const std::string& name);

// Owned by one thread.
class ByteReader {
 public:
  // `file` must outlive the reader and be within kMaxFileBytes; `name` is for the errors.
  ByteReader(std::span<const std::uint8_t> file, std::string name);

  // The next `wanted` bytes, fewer only at the end. Takes memory as bytes come, never for bytes that are not there.
  // Error{invalid} where the compressed data are damaged or cut short.
  std::vector<std::uint8_t> read(std::size_t wanted);
  // All that is left. Error{invalid} if that is more than kMaxFileBytes.
  std::vector<std::uint8_t> read_rest();
  // Whether nothing follows. Only then is the checksum of compressed data known to be right.
  bool at_end() { return read(1).empty(); }

  const std::string& name() const { return name_; }

 private:
  struct EndInflate {
    void operator()(z_stream_s* stream) const;
  };

  std::size_t fill(std::span<std::uint8_t> into);
  std::size_t inflate_into(std::span<std::uint8_t> into);
  void begin_member();
  std::size_t consumed() const;

  const std::span<const std::uint8_t> file_;
  const std::string name_;
  std::size_t position_ = 0;                            // in a file that is not compressed
  std::unique_ptr<z_stream_s, EndInflate> compressed_;  // none where it is not
  bool ended_ = false;
};

}  // namespace paceline
