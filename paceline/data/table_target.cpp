#include "paceline/data/table_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "paceline/core/error.hpp"
#include "paceline/data/numbers.hpp"

namespace paceline {
namespace {

constexpr std::size_t kMostNumericClasses = 20;  // more different integers than that are taken for quantities

void require_targets(const TableRows& part, std::size_t source) {
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    if (!is_missing(part.cell(i, source))) continue;
    throw Error(Code::invalid, fmt::format("{}: what is to be predicted is missing; take the row out",
                                           part.table.place(part.rows[i], source)));
  }
}

bool all_numbers(const TableRows& part, std::size_t source) {
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    if (!parse_number(part.cell(i, source))) return false;
  }
  return true;
}

bool few_integers(const TableRows& part, std::size_t source) {
  std::set<double> seen;
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    const double value = *parse_number(part.cell(i, source));
    if (value != std::trunc(value)) return false;
    seen.insert(value);
    if (seen.size() > kMostNumericClasses) return false;
  }
  return true;
}

void check_count(std::size_t classes, const CsvTable& table, std::size_t source, bool numeric) {
  if (classes >= 2 && classes <= static_cast<std::size_t>(kMaxClasses)) return;
  const std::string column = fmt::format("column {} ({}) of {}", source + 1, table.header(source), table.name());
  if (classes < 2) {
    throw Error(Code::invalid, fmt::format("{} has the same value everywhere: there is nothing to predict", column));
  }
  throw Error(Code::invalid,
              fmt::format("{} has {} classes, but there may be {}{}", column, classes, kMaxClasses,
                          numeric ? "; predict=number takes it for a number" : "; target=COLUMN names another column"));
}

}  // namespace

TargetCode::TargetCode(const TableRows& train, std::size_t source, Prediction goal) : source_(source) {
  require_targets(train, source);
  numeric_ = all_numbers(train, source);
  const bool classes =
      goal == Prediction::automatic ? !numeric_ || few_integers(train, source) : goal == Prediction::classes;
  if (classes) learn_classes(train);
}

// Numeric classes go by their values, since 1 and 1.0 are the same.
void TargetCode::learn_classes(const TableRows& train) {
  std::map<std::pair<double, std::string_view>, std::string_view> seen;  // to how it is written first
  for (std::size_t i = 0; i < train.rows.size(); ++i) {
    const std::string_view cell = train.cell(i, source_);
    seen.emplace(numeric_ ? std::pair(*parse_number(cell), std::string_view()) : std::pair(0.0, cell), cell);
  }
  check_count(seen.size(), train.table, source_, numeric_);
  for (const auto& [key, name] : seen) {
    values_.push_back(key.first);
    names_.emplace_back(name);
  }
}

std::size_t TargetCode::class_of(const CsvTable& table, std::size_t row) const {
  const std::string_view cell = table.cell(row, source_);
  std::size_t found = names_.size();
  if (const auto value = parse_number(cell); numeric_ && value) {
    const auto at = std::lower_bound(values_.begin(), values_.end(), *value);
    if (at != values_.end() && *at == *value) found = static_cast<std::size_t>(at - values_.begin());
  } else if (!numeric_) {
    const auto at = std::lower_bound(names_.begin(), names_.end(), cell);
    if (at != names_.end() && *at == cell) found = static_cast<std::size_t>(at - names_.begin());
  }
  if (found < names_.size()) return found;
  throw Error(Code::invalid, fmt::format("{}: the test part has class '{}', which the training part does not have",
                                         table.place(row, source_), cell));
}

std::vector<std::uint8_t> TargetCode::labels(const TableRows& part) const {
  require_targets(part, source_);
  std::vector<std::uint8_t> labels;
  labels.reserve(part.rows.size());
  for (const std::uint32_t row : part.rows) labels.push_back(static_cast<std::uint8_t>(class_of(part.table, row)));
  return labels;
}

std::vector<float> TargetCode::numbers(const TableRows& part) const {
  require_targets(part, source_);
  std::vector<float> numbers;
  numbers.reserve(part.rows.size());
  for (const std::uint32_t row : part.rows) {
    const auto value = parse_number(part.table.cell(row, source_));
    if (!value || !std::isfinite(static_cast<float>(*value))) {
      throw Error(Code::invalid, fmt::format("{}: a number is to be predicted, but '{}' is {}",
                                             part.table.place(row, source_), part.table.cell(row, source_),
                                             value ? "too large" : "none; predict=class takes it for a class"));
    }
    numbers.push_back(static_cast<float>(*value));
  }
  return numbers;
}

}  // namespace paceline
