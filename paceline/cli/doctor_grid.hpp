// Rows of words under each other.
#pragma once

#include <string>
#include <vector>

namespace paceline {

class Grid {
 public:
  enum class Align { left, right };

  // Columns to the left by default; those after `columns` as the last one.
  explicit Grid(std::vector<Align> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Two spaces before each row and between columns, none at the end of a line.
  std::string text() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Lines of at most `width` columns; all but the first begin with `indent` spaces, for which the first has room already.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width = 96);

}  // namespace paceline
