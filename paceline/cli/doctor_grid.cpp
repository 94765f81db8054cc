#include "paceline/cli/doctor_grid.hpp"

#include <algorithm>
#include <sstream>

#include "paceline/cli/doctor_words.hpp"

namespace paceline {

std::string Grid::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      const bool right = columns_[std::min(i, columns_.size() - 1)] == Align::right;
      line += "  " + (right ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::istringstream words(text);
  std::string lines;
  std::size_t at = indent;
  for (std::string word; words >> word;) {
    const bool first = lines.empty();
    if (!first && at + 1 + width_of(word) > width) {
      lines += "\n" + std::string(indent, ' ') + word;
      at = indent + width_of(word);
    } else {
      lines += (first ? "" : " ") + word;
      at += width_of(word) + (first ? 0 : 1);
    }
  }
  return lines + "\n";
}

}  // namespace paceline
