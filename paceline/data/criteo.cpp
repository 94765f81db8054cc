#include "paceline/data/criteo.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/data/byte_reader.hpp"
#include "paceline/data/file_spec.hpp"
#include "paceline/data/numbers.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kTestSeedOfClicks = 2014;  // of the test part: the same whatever a run's seed is
constexpr int kMostHashBits = 63;
constexpr std::size_t kColumns = 1 + kCriteoIntegers + kCriteoCategories;

// "Label", "I7" or "C26": number 0, 7 or 39 of a row without header.
std::string name_of(std::size_t column) {
  if (column == 0) return "Label";
  if (column <= kCriteoIntegers) return fmt::format("I{}", column);
  return fmt::format("C{}", column - kCriteoIntegers);
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

float transformed(double x) { return static_cast<float>(x < 0 ? -std::log1p(-x) : std::log1p(x)); }

class CriteoParser {
 public:
  CriteoParser(std::span<const std::uint8_t> file, const std::string& name, int hash_bits)
      : name_(name), hash_bits_(hash_bits), bytes_(ByteReader(file, name).read_rest()) {
    rest_ = {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  Dataset parse() {
    bool first = true;
    while (read_line()) {
      if (cells_.empty()) continue;
      if (std::exchange(first, false) && take_header()) continue;
      take_row();
    }
    if (labels_.empty()) throw Error(Code::invalid, fmt::format("{} has no rows", name_));
    const Form form{.kind = Kind::keyed, .shape = {.width = kCriteoIntegers}, .classes = 2, .keys = kCriteoCategories};
    return Dataset::of_keyed_rows(form, std::move(values_), std::move(keys_), std::move(labels_), name_);
  }

 private:
  [[noreturn]] void refuse(std::size_t column, const std::string& reason) const {
    throw Error(Code::invalid, fmt::format("{}, line {}, column {} ({}): {}", name_, line_, place_[column] + 1,
                                           name_of(column), reason));
  }
  [[noreturn]] void refuse_line(const std::string& reason) const {
    throw Error(Code::invalid, fmt::format("{}, line {}: {}", name_, line_, reason));
  }

  // Into cells, none of a blank line. False at the end of the file.
  bool read_line() {
    cells_.clear();
    if (rest_.empty()) return false;
    ++line_;
    std::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(rest_.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(' ') == std::string_view::npos) return true;
    if (separator_ == 0) separator_ = line.find('\t') != std::string_view::npos ? '\t' : ',';
    for (std::size_t end = 0; end != std::string_view::npos; line.remove_prefix(std::min(line.size(), end + 1))) {
      end = line.find(separator_);
      cells_.push_back(trimmed(line.substr(0, end)));
    }
    return true;
  }

  // A first line with a cell "Label" says which column is where; otherwise they are in their order.
  bool take_header() {
    width_ = kColumns;
    for (std::size_t column = 0; column < kColumns; ++column) place_[column] = column;
    if (std::none_of(cells_.begin(), cells_.end(), [](auto cell) { return same_word(cell, "Label"); })) return false;
    width_ = cells_.size();
    for (std::size_t column = 0; column < kColumns; ++column) {
      const auto is_it = [&](std::string_view cell) { return same_word(cell, name_of(column)); };
      const auto found = std::find_if(cells_.begin(), cells_.end(), is_it);
      if (found == cells_.end()) refuse_line(fmt::format("the header has no column {}", name_of(column)));
      if (std::find_if(found + 1, cells_.end(), is_it) != cells_.end())
        refuse_line(fmt::format("the header names {} twice", name_of(column)));
      place_[column] = static_cast<std::size_t>(found - cells_.begin());
    }
    return true;
  }

  void take_row() {
    if (cells_.size() != width_)
      refuse_line(fmt::format("{} column{} between {}, but there must be {}", cells_.size(),
                              cells_.size() == 1 ? "" : "s", separator_ == '\t' ? "tabs" : "commas", width_));
    if (labels_.size() == kMaxExamples) refuse_line(fmt::format("more than {} rows", kMaxExamples));
    labels_.push_back(read_label());
    for (std::size_t column = 1; column <= kCriteoIntegers; ++column) values_.push_back(read_integer(column));
    for (std::size_t column = kCriteoIntegers + 1; column < kColumns; ++column) keys_.push_back(read_key(column));
  }

  std::string_view cell(std::size_t column) const { return cells_[place_[column]]; }

  std::uint8_t read_label() const {
    const std::string_view text = cell(0);
    if (text != "0" && text != "1") refuse(0, fmt::format("'{}' is neither 0 nor 1", text));
    return text == "1" ? 1 : 0;
  }

  float read_integer(std::size_t column) const {
    const std::string_view text = cell(column);
    if (text.empty()) return 0;
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc::result_out_of_range) refuse(column, fmt::format("{} does not fit 64 bits", text));
    if (problem != std::errc() || end != text.data() + text.size())
      refuse(column, fmt::format("'{}' is no integer", text));
    return transformed(static_cast<double>(value));
  }

  std::uint64_t read_key(std::size_t column) const {
    const std::string_view text = cell(column);
    const int number = static_cast<int>(column) - kCriteoIntegers;
    if (text.empty()) return criteo_key(number, std::nullopt, hash_bits_);
    std::uint32_t hash = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
    if (problem != std::errc() || end != text.data() + text.size())
      refuse(column, fmt::format("'{}' is no hash of up to 8 hexadecimal digits", text));
    return criteo_key(number, hash, hash_bits_);
  }

  const std::string name_;
  const int hash_bits_;
  const std::vector<std::uint8_t> bytes_;
  std::string_view rest_;
  char separator_ = 0;
  std::size_t line_ = 0;
  std::size_t width_ = 0;
  std::array<std::size_t, kColumns> place_ = {};  // in a line, of each column
  std::vector<std::string_view> cells_;           // of the line
  std::vector<float> values_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint8_t> labels_;
};

int parse_hash_bits(const std::string& text) {
  int bits = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), bits);
  if (problem == std::errc() && end == text.data() + text.size() && bits >= 1 && bits <= kMostHashBits) return bits;
  throw Error(Code::invalid, fmt::format("in criteo, 'hash-bits={}' needs a number from 1 to {}", text, kMostHashBits));
}

}  // namespace

CriteoOptions parse_criteo_options(std::string_view text) {
  const FileSpec spec = parse_file_spec(text, "criteo", {"hash-bits", "test"});
  CriteoOptions options{.file = spec.file};
  if (const auto bits = spec.option("hash-bits")) options.hash_bits = parse_hash_bits(*bits);
  const auto test = spec.option("test");
  if (!test) return options;
  if (const auto share = parse_share(*test)) {
    options.test = *share;
  } else if (test->empty() || test->ends_with('%')) {
    throw Error(Code::invalid,
                fmt::format("in criteo, 'test={}' needs a share above 0% and below 100%, or a file", *test));
  } else {
    options.test_file = *test;
  }
  return options;
}

// Column and hash side by side, and a bit for what is missing: no two categories have the same key.
std::uint64_t criteo_key(int column, std::optional<std::uint32_t> hash, int hash_bits) {
  constexpr std::uint64_t kMissing = std::uint64_t{1} << 40;
  const std::uint64_t key = static_cast<std::uint64_t>(column) << 32 | (hash ? *hash : kMissing);
  return hash_bits == 0 ? key : XXH3_64bits(&key, sizeof key) >> (64 - hash_bits);
}

Dataset parse_criteo(std::span<const std::uint8_t> file, const std::string& name, int hash_bits) {
  return CriteoParser(file, name, hash_bits).parse();
}

DataSplit read_criteo(const CriteoOptions& options) {
  const Dataset all = parse_criteo(load_file(options.file), options.file, options.hash_bits);
  if (!options.test_file.empty())
    return make_split(all, parse_criteo(load_file(options.test_file), options.test_file, options.hash_bits));
  const Division division = divide(all.size(), options.test, kTestSeedOfClicks, all.name());
  return make_split(subset(all, division.rest), subset(all, division.drawn));
}

}  // namespace paceline
