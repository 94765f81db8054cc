// What the fuzz targets of the readers share: a packed file reaches what lies behind gzip's checksum, which the fuzzer
// does not guess.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <vector>

#include "paceline/core/check.hpp"

namespace paceline {

using Bytes = std::vector<std::uint8_t>;

inline constexpr std::size_t kMostPerByte = 1032;  // what deflate can make of one byte

inline Bytes gzip(Bytes bytes) {
  z_stream stream = {};
  CHECK(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib begins");
  Bytes packed(deflateBound(&stream, bytes.size()));
  stream.next_in = bytes.data();
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib ends");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace paceline
