// Packer and Unpacker: numbers (little endian) and byte strings in a message. An Unpacker never reads past its end: it
// turns bad instead, gives zeros and empty strings from then on, and is asked once, at the end, whether all went well.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace paceline {

class Packer {
 public:
  template <class Number>
  Packer& number(Number value) {
    for (std::size_t i = 0; i < sizeof value; ++i) {
      bytes_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
    }
    return *this;
  }
  Packer& bytes(std::string_view raw) {
    bytes_.append(raw);
    return *this;
  }
  // A 16-bit length, then the bytes. The caller has checked the length.
  Packer& text(std::string_view raw) { return number(static_cast<std::uint16_t>(raw.size())).bytes(raw); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  template <class Number>
  Number number() {
    std::uint64_t value = 0;
    const std::string_view raw = bytes(sizeof(Number));
    for (std::size_t i = 0; i < raw.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    }
    return static_cast<Number>(value);
  }
  std::string_view bytes(std::size_t count) {
    if (count > left_.size()) {
      good_ = false;
      left_ = {};
      return {};
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  std::string_view text() { return bytes(number<std::uint16_t>()); }
  std::string_view rest() { return bytes(left_.size()); }

  bool good() const { return good_; }
  // Everything was read, and nothing was missing.
  bool complete() const { return good_ && left_.empty(); }

 private:
  std::string_view left_;
  bool good_ = true;
};

}  // namespace paceline
