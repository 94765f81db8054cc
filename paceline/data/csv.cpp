#include "paceline/data/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "paceline/core/error.hpp"
#include "paceline/data/byte_reader.hpp"
#include "paceline/data/dataset.hpp"
#include "paceline/data/numbers.hpp"

namespace paceline {

// One pass over the text. A cell in quotes is made shorter in place where it has doubled ones.
class CsvParser {
 public:
  CsvParser(std::span<const std::uint8_t> file, const std::string& name) {
    const std::vector<std::uint8_t> bytes = ByteReader(file, name).read_rest();
    table_.name_ = name;
    table_.text_.reserve(bytes.size() + 1);
    table_.text_.assign(bytes.begin(), bytes.end());
    if (!bytes.empty() && bytes.back() != '\n') table_.text_.push_back('\n');  // so that every row ends in one
    at_ = table_.text_.data();
    end_ = at_ + table_.text_.size();
    if (std::string_view(at_, bytes.size()).starts_with("\xEF\xBB\xBF")) at_ += 3;
  }

  CsvTable parse() {
    std::vector<std::string_view> row;
    while (read_row(row)) {
      if (table_.header_.empty()) {
        take_header(row);
      } else {
        take_row(row);
      }
    }
    if (table_.header_.empty()) throw Error(Code::invalid, fmt::format("{} is empty", table_.name_));
    if (table_.rows() == 0) throw Error(Code::invalid, fmt::format("{} has a header, but no rows", table_.name_));
    return std::move(table_);
  }

 private:
  [[noreturn]] void refuse(std::size_t line, std::size_t column, const std::string& reason) const {
    throw Error(Code::invalid, fmt::format("{}, line {}, column {}: {}", table_.name_, line, column + 1, reason));
  }

  // False at the end of the file.
  bool read_row(std::vector<std::string_view>& row) {
    while (at_ < end_ && at_line_end()) end_line();  // blank lines
    row.clear();
    row_line_ = line_;
    if (at_ == end_) return false;
    do {
      if (row.size() == static_cast<std::size_t>(kMaxColumns)) {
        refuse(line_, row.size(), fmt::format("there may be {} columns at most", kMaxColumns));
      }
      row.push_back(trimmed(*at_ == '"' ? read_quoted(row.size()) : read_plain(row.size())));
    } while (*at_ == ',' && ++at_);
    end_line();
    return true;
  }

  bool at_line_end() const { return *at_ == '\n' || (*at_ == '\r' && at_[1] == '\n'); }
  void end_line() {
    at_ += *at_ == '\r' ? 2 : 1;
    ++line_;
  }

  std::string_view read_plain(std::size_t column) {
    const char* begin = at_;
    for (; *at_ != ',' && !at_line_end(); ++at_) {
      if (*at_ == '"') refuse(line_, column, "a quote in a cell that does not begin with one");
      if (*at_ == '\r') refuse(line_, column, "a carriage return that no line feed follows");
      if (*at_ == '\0') refuse(line_, column, "a byte of value 0: this is no text in UTF-8 or ASCII");
    }
    return {begin, at_};
  }

  std::string_view read_quoted(std::size_t column) {
    const std::size_t opened = line_;
    char* begin = ++at_;
    char* out = begin;
    for (; at_ < end_; ++at_) {
      if (*at_ == '\0') refuse(line_, column, "a byte of value 0: this is no text in UTF-8 or ASCII");
      if (*at_ == '"' && *++at_ != '"') return finish_quoted(begin, out, column);
      if (*at_ == '\n') ++line_;
      *out++ = *at_;
    }
    refuse(opened, column, "a quote opens here that nothing closes");
  }

  std::string_view finish_quoted(char* begin, char* out, std::size_t column) const {
    if (*at_ == ',' || at_line_end()) return {begin, out};
    refuse(line_, column, fmt::format("'{}' follows a closing quote; a quote within quotes is written twice", *at_));
  }

  void take_header(const std::vector<std::string_view>& row) {
    if (std::all_of(row.begin(), row.end(), [](std::string_view cell) { return parse_number(cell).has_value(); })) {
      refuse(row_line_, 0, "the first line is to name the columns, but there are only numbers in it");
    }
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!seen.insert(row[i]).second) refuse(row_line_, i, fmt::format("the header names '{}' twice", row[i]));
    }
    if (row.size() == 1 && row[0].find_first_of(";\t") != std::string_view::npos) {
      refuse(row_line_, 0, "there is a single column; cells are separated by commas");
    }
    table_.header_ = row;
  }

  void take_row(const std::vector<std::string_view>& row) {
    if (row.size() != table_.columns()) {
      throw Error(Code::invalid, fmt::format("{}, line {}: {} column{}, but the header has {}", table_.name_, row_line_,
                                             row.size(), row.size() == 1 ? "" : "s", table_.columns()));
    }
    if (table_.rows() == kMaxExamples) {
      throw Error(Code::invalid, fmt::format("{} has more than {} rows", table_.name_, kMaxExamples));
    }
    table_.cells_.insert(table_.cells_.end(), row.begin(), row.end());
    table_.lines_.push_back(row_line_);
  }

  CsvTable table_;
  char* at_ = nullptr;
  char* end_ = nullptr;
  std::size_t line_ = 1;
  std::size_t row_line_ = 1;
};

std::string CsvTable::place(std::size_t row, std::size_t column) const {
  return fmt::format("{}, line {}, column {} ({})", name_, line(row), column + 1, header(column));
}

CsvTable parse_csv(std::span<const std::uint8_t> file, const std::string& name) {
  return CsvParser(file, name).parse();
}

CsvTable read_csv(const std::string& path) { return parse_csv(load_file(path), path); }

}  // namespace paceline
