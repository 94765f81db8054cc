#include "paceline/data/table_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/error.hpp"
#include "paceline/data/numbers.hpp"

namespace paceline {

ColumnCode ColumnCode::of(const TableRows& train, std::size_t source) {
  ColumnCode code;
  code.source_ = source;
  for (std::size_t i = 0; i < train.rows.size(); ++i) {
    const std::string_view cell = train.cell(i, source);
    const bool missing = is_missing(cell);
    code.has_missing_ |= missing;
    code.numeric_ = code.numeric_ && (missing || parse_number(cell));
  }
  if (code.numeric_) {
    code.learn_numbers(train);
  } else {
    code.learn_categories(train);
  }
  return code;
}

// In one pass (Welford 1962), which does not lose the digits that a sum of squares would.
void ColumnCode::learn_numbers(const TableRows& train) {
  double count = 0;
  double squares = 0;
  for (std::size_t i = 0; i < train.rows.size(); ++i) {
    const auto value = parse_number(train.cell(i, source_));
    if (!value) continue;
    const double from_mean = *value - mean_;
    mean_ += from_mean / ++count;
    squares += from_mean * (*value - mean_);
  }
  const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
  if (!std::isfinite(mean_) || !std::isfinite(deviation)) {
    throw Error(Code::invalid, fmt::format("the numbers in column {} ({}) of {} are too large to be standardised",
                                           source_ + 1, train.table.header(source_), train.table.name()));
  }
  scale_ = deviation > 0 ? 1 / deviation : 1;
}

void ColumnCode::learn_categories(const TableRows& train) {
  for (std::size_t i = 0; i < train.rows.size(); ++i) {
    if (!is_missing(train.cell(i, source_))) categories_.push_back(train.cell(i, source_));
  }
  std::sort(categories_.begin(), categories_.end());
  categories_.erase(std::unique(categories_.begin(), categories_.end()), categories_.end());
}

void ColumnCode::write(const CsvTable& table, std::size_t row, float* out) const {
  const std::string_view cell = table.cell(row, source_);
  const bool missing = is_missing(cell);
  std::fill_n(out, width(), 0.0F);
  if (missing && has_missing_) out[width() - 1] = 1;
  if (missing) return;
  if (numeric_) {
    out[0] = standardised(table, row);
    return;
  }
  const auto found = std::lower_bound(categories_.begin(), categories_.end(), cell);
  if (found != categories_.end() && *found == cell) out[found - categories_.begin()] = 1;
}

float ColumnCode::standardised(const CsvTable& table, std::size_t row) const {
  const auto value = parse_number(table.cell(row, source_));
  if (!value) {
    throw Error(Code::invalid, fmt::format("{}: '{}' is no number, but all values of the training part are",
                                           table.place(row, source_), table.cell(row, source_)));
  }
  const auto result = static_cast<float>((*value - mean_) * scale_);
  if (std::isfinite(result)) return result;
  throw Error(Code::invalid, fmt::format("{}: {} is too far from the values of the training part",
                                         table.place(row, source_), table.cell(row, source_)));
}

}  // namespace paceline
