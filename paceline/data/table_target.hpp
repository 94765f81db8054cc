// TargetCode: what is to be predicted, as classes or as a number in its own unit, learnt from the training part.
// Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/data/table.hpp"
#include "paceline/data/table_columns.hpp"

namespace paceline {

class TargetCode {
 public:
  // Error{invalid} if the goal cannot be reached with such a column.
  TargetCode(const TableRows& train, std::size_t source, Prediction goal);

  std::size_t source() const { return source_; }
  int classes() const { return static_cast<int>(names_.size()); }  // 0: a number
  // As they are first written in the training part; in the order of their numbers, or of their letters.
  const std::vector<std::string>& class_names() const { return names_; }

  // Of each row. Error{invalid} where one is missing, or is a class that the training part does not have.
  std::vector<std::uint8_t> labels(const TableRows& part) const;
  std::vector<float> numbers(const TableRows& part) const;

 private:
  void learn_classes(const TableRows& train);
  std::size_t class_of(const CsvTable& table, std::size_t row) const;

  const std::size_t source_;
  bool numeric_ = true;
  std::vector<double> values_;  // of numeric classes, sorted
  std::vector<std::string> names_;
};

}  // namespace paceline
