// Comma-separated values as RFC 4180 has them: quotes, which may hold commas, line ends and doubled quotes; lines that
// end in LF or CRLF; a header. Blank lines do not count. A file may be compressed with gzip and may begin with a
// UTF-8 byte order mark. Every failure is an Error{invalid} with file, line and column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// Owns the text; cells are views of it. Moved, never copied. Immutable, thread-safe to read.
class CsvTable {
 public:
  CsvTable(CsvTable&&) = default;
  CsvTable& operator=(CsvTable&&) = default;

  const std::string& name() const { return name_; }
  std::size_t columns() const { return header_.size(); }
  std::size_t rows() const { return lines_.size(); }
  std::string_view header(std::size_t column) const { return header_.at(column); }
  // Without the blanks around it.
  std::string_view cell(std::size_t row, std::size_t column) const { return cells_.at(row * header_.size() + column); }
  // Where a row begins in the file; the header is line 1.
  std::size_t line(std::size_t row) const { return lines_.at(row); }
  // "houses.csv, line 7, column 3 (age)", to begin a sentence with.
  std::string place(std::size_t row, std::size_t column) const;

 private:
  friend class CsvParser;
  CsvTable() = default;

  std::string name_;
  std::vector<char> text_;  // a vector, since a move keeps its address
  std::vector<std::string_view> header_;
  std::vector<std::string_view> cells_;
  std::vector<std::size_t> lines_;
};

// `file` is the content of the file called `name`, as it is on disk.
CsvTable parse_csv(std::span<const std::uint8_t> file, const std::string& name);
CsvTable read_csv(const std::string& path);

}  // namespace paceline
