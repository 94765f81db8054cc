// A table of mixed columns as rows of numbers. What is learnt from the training part (which columns are numeric, means
// and deviations, categories, classes) is applied to both parts, so that the test part stays unknown.
//
//   numeric      every value of the training part is a finite number: standardised; a missing one becomes 0, the mean
//   categorical  any other: one input per category of the training part, in sorted order; an unseen one is all zeros
//
// A column whose training part has missing values has one input more, which says that the value is missing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "paceline/data/csv.hpp"
#include "paceline/data/dataset.hpp"

namespace paceline {

enum class Prediction { automatic, classes, number };

struct TableOptions {
  std::string file = {};
  std::string target = {};     // a column's name; the last one if empty
  double test = 0.2;           // a random share of the rows, always the same
  std::string test_file = {};  // instead of the share, if given
  Prediction goal = Prediction::automatic;
};

// "houses.csv,target=price,test=20%,predict=number"; after test= a share or a file, after predict= class or number.
TableOptions parse_table_options(std::string_view text);

// Automatic: classes if a target of the training part is no number, or if all are integers with 20 different values at
// most. Error{invalid}, with file, line and column, for whatever is wrong with a table.
DataSplit make_table_split(const CsvTable& table, const TableOptions& options);
DataSplit make_table_split(const CsvTable& train, const CsvTable& test, const TableOptions& options);
DataSplit read_table(const TableOptions& options);

}  // namespace paceline
