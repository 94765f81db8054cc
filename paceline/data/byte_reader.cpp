#include "paceline/data/byte_reader.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr int kGzip = 15 + 16;  // zlib's window bits, and "with a gzip header"
constexpr std::size_t kFirstPiece = std::size_t{1} << 20;

bool is_gzip(std::span<const std::uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

std::size_t size_of_file(const std::string& path) {
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem)) {
    throw Error(Code::invalid, fmt::format("cannot read {}: {}", path, problem ? problem.message() : "not a file"));
  }
  const auto bytes = std::filesystem::file_size(path, problem);
  if (problem) throw Error(Code::invalid, fmt::format("cannot read {}: {}", path, problem.message()));
  if (bytes > kMaxFileBytes) {
    throw Error(Code::invalid,
                fmt::format("{} has {} bytes; files of data have at most {}", path, bytes, kMaxFileBytes));
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace

std::vector<std::uint8_t> load_file(const std::string& path) {
  std::vector<std::uint8_t> bytes(size_of_file(path));
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!stream) {
    const char* reason = errno != 0 ? std::strerror(errno) : "it became shorter meanwhile";
    throw Error(Code::invalid, fmt::format("cannot read {}: {}", path, reason));
  }
  return bytes;
}

std::optional<std::string> look_for_file(const std::string& folder, const std::string& file) {
  const std::string plain = (std::filesystem::path(folder) / file).string();
  std::error_code ignored;
  if (std::filesystem::exists(plain, ignored)) return plain;
  if (std::filesystem::exists(plain + ".gz", ignored)) return plain + ".gz";
  return std::nullopt;
}

std::string find_file(const std::string& folder, const std::string& file) {
  if (auto found = look_for_file(folder, file)) return *found;
  throw Error(Code::invalid,
              fmt::format("there is neither {0} nor {0}.gz", (std::filesystem::path(folder) / file).string()));
}

void require_folder(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return;
  throw Error(Code::invalid, fmt::format("there is no folder {}, where {} was to be read from", folder, name));
}

void ByteReader::EndInflate::operator()(z_stream_s* stream) const {
  inflateEnd(stream);
  delete stream;
}

ByteReader::ByteReader(std::span<const std::uint8_t> file, std::string name) : file_(file), name_(std::move(name)) {
  CHECK(file.size() <= kMaxFileBytes, "a file within the limit");  // zlib counts its input in 32 bits
  if (!is_gzip(file)) return;
  auto stream = std::make_unique<z_stream>();
  stream->next_in = const_cast<Bytef*>(file.data());  // zlib's type; it does not write there
  stream->avail_in = static_cast<uInt>(file.size());
  if (inflateInit2(stream.get(), kGzip) != Z_OK) throw std::bad_alloc();
  compressed_.reset(stream.release());
}

std::vector<std::uint8_t> ByteReader::read(std::size_t wanted) {
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < wanted) {
    const std::size_t before = bytes.size();
    bytes.resize(std::min(wanted, std::max(kFirstPiece, 2 * before)));
    const std::size_t got = fill(std::span(bytes).subspan(before));
    const bool ended = before + got < bytes.size();
    bytes.resize(before + got);
    if (ended) break;
  }
  return bytes;
}

std::vector<std::uint8_t> ByteReader::read_rest() {
  std::vector<std::uint8_t> bytes = read(kMaxFileBytes);
  if (at_end()) return bytes;
  throw Error(Code::invalid, fmt::format("{} has more than {} bytes when unpacked", name_, kMaxFileBytes));
}

std::size_t ByteReader::fill(std::span<std::uint8_t> into) {
  if (compressed_) return inflate_into(into);
  const std::size_t count = std::min(into.size(), file_.size() - position_);
  std::copy_n(file_.data() + position_, count, into.data());
  position_ += count;
  return count;
}

std::size_t ByteReader::inflate_into(std::span<std::uint8_t> into) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // zlib counts its output in 32 bits
  std::size_t filled = 0;
  while (filled < into.size() && !ended_) {
    const std::size_t piece = std::min(into.size() - filled, kMost);
    compressed_->next_out = into.data() + filled;
    compressed_->avail_out = static_cast<uInt>(piece);
    const int result = inflate(compressed_.get(), Z_NO_FLUSH);
    filled += piece - compressed_->avail_out;
    if (result == Z_STREAM_END) {
      begin_member();
    } else if (result == Z_BUF_ERROR) {
      throw Error(Code::invalid, fmt::format("{} ends after {} bytes in the middle of its gzip data: fetch it again",
                                             name_, file_.size()));
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK) {
      const char* reason = compressed_->msg != nullptr ? compressed_->msg : "a preset dictionary";
      throw Error(Code::invalid, fmt::format("the gzip data of {} are damaged near byte {} ({}): fetch it again", name_,
                                             consumed(), reason));
    }
  }
  return filled;
}

// gzip files may be concatenated; what follows one and is no other is garbage.
void ByteReader::begin_member() {
  const auto rest = file_.subspan(consumed());
  ended_ = rest.empty();
  if (ended_) return;
  if (!is_gzip(rest)) {
    throw Error(Code::invalid, fmt::format("{} bytes that are no gzip data follow byte {} of {}: fetch it again",
                                           rest.size(), consumed(), name_));
  }
  inflateReset(compressed_.get());
}

std::size_t ByteReader::consumed() const { return file_.size() - compressed_->avail_in; }

}  // namespace paceline
