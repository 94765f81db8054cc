// Named arrays in a file of Hugging Face's safetensors format, which Python and others read as well: the length of the
// header (64 bits, little-endian), the header (JSON: dtype, shape and place of each array, and texts of the writer's
// under __metadata__), then the arrays, one right after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// Does not own its bytes. An array that was read has them where the file had them: aligned to nothing, so copy them
// rather than point a float* at them.
struct NamedArray {
  std::string name;
  std::string dtype;  // "F32", "F64", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Atomic; arrays in the order given. Error{invalid} on a duplicate name or a size that is not shape x dtype.
void write_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                       const std::map<std::string, std::string>& metadata);

// What such a file consists of: all that stands before the data (a multiple of 64 bytes), then the arrays' bytes. The
// header's JSON has no space in it but in strings and at its end.
std::string safetensors_header(std::span<const NamedArray> arrays, const std::map<std::string, std::string>& metadata);
std::vector<std::span<const std::byte>> safetensors_parts(std::string_view header, std::span<const NamedArray> arrays);

// A file in memory. The constructor checks all of it before anything is used: header length against file size, offsets
// in range, without gap or overlap up to the file's end, sizes = shape x dtype, no name twice, JSON of bounded size and
// depth. Error{invalid} says what is wrong, Error{system} that the file cannot be read.
// Constant after construction; a move leaves pointers and views into it valid.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::vector<NamedArray>& arrays() const { return arrays_; }  // in the order of their bytes
  const NamedArray* find(std::string_view name) const;               // nullptr if there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::string_view bytes() const { return *bytes_; }  // of the whole file

 private:
  std::unique_ptr<const std::string> bytes_;
  std::vector<NamedArray> arrays_;
  std::map<std::string_view, std::size_t> index_;  // into arrays_
  std::map<std::string, std::string> metadata_;
};

}  // namespace paceline
