// ColumnCode: how one column of a table becomes inputs of a model, learnt from the training part. Immutable; its
// categories are views of the table that it was learnt from, which must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "paceline/data/csv.hpp"

namespace paceline {

// Some rows of a table, which must outlive it.
struct TableRows {
  const CsvTable& table;
  std::span<const std::uint32_t> rows;

  std::string_view cell(std::size_t i, std::size_t column) const { return table.cell(rows[i], column); }
};

class ColumnCode {
 public:
  static ColumnCode of(const TableRows& train, std::size_t source);

  std::size_t source() const { return source_; }
  // How many inputs.
  std::size_t width() const { return (numeric_ ? 1 : categories_.size()) + (has_missing_ ? 1 : 0); }
  // Writes that many. Error{invalid} where a number is expected and something else is there.
  void write(const CsvTable& table, std::size_t row, float* out) const;

 private:
  float standardised(const CsvTable& table, std::size_t row) const;
  void learn_numbers(const TableRows& train);
  void learn_categories(const TableRows& train);

  std::size_t source_ = 0;
  bool numeric_ = true;
  bool has_missing_ = false;
  double mean_ = 0;
  double scale_ = 1;
  std::vector<std::string_view> categories_;  // sorted
};

}  // namespace paceline
