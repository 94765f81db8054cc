#include "paceline/data/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "paceline/core/error.hpp"
#include "paceline/data/file_spec.hpp"
#include "paceline/data/split.hpp"
#include "paceline/data/table_columns.hpp"
#include "paceline/data/table_target.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kTestSeed = 4180;                  // of the test part: the same whatever a run's seed is
constexpr std::size_t kMostValues = std::size_t{1} << 30;  // of all rows together: 4 GiB

Prediction parse_goal(const std::string& word) {
  if (word == "class") return Prediction::classes;
  if (word == "number") return Prediction::number;
  throw Error(Code::invalid, fmt::format("in csv, 'predict={}' must be predict=class or predict=number", word));
}

void take_test(const std::string& word, TableOptions& options) {
  if (const auto share = parse_share(word)) {
    options.test = *share;
  } else if (word.empty() || word.ends_with('%')) {
    throw Error(Code::invalid, fmt::format("in csv, 'test={}' needs a share above 0% and below 100%, or a file", word));
  } else {
    options.test_file = word;
  }
}

std::size_t find_target(const CsvTable& table, const std::string& name) {
  if (table.columns() < 2) {
    throw Error(Code::invalid,
                fmt::format("{} has a single column: there is nothing to predict it from", table.name()));
  }
  if (name.empty()) return table.columns() - 1;
  std::string names;
  for (std::size_t i = 0; i < table.columns(); ++i) {
    if (table.header(i) == name) return i;
    names += fmt::format("{}{}", i == 0 ? "" : ", ", table.header(i));
  }
  throw Error(Code::invalid, fmt::format("{} has no column '{}': there are {}", table.name(), name, names));
}

void check_same_columns(const CsvTable& train, const CsvTable& test) {
  const std::size_t columns = std::max(train.columns(), test.columns());
  for (std::size_t i = 0; i < columns; ++i) {
    const auto name = [i](const CsvTable& table) { return i < table.columns() ? table.header(i) : "no more"; };
    if (name(train) == name(test)) continue;
    throw Error(Code::invalid, fmt::format("column {} of {} is '{}', but that of {} is '{}': they must have the same "
                                           "columns in the same order",
                                           i + 1, test.name(), name(test), train.name(), name(train)));
  }
}

// A guard against columns such as identifiers, which would get an input for each row.
void check_width(const CsvTable& table, std::span<const ColumnCode> codes, std::size_t width, std::size_t rows) {
  if (width <= static_cast<std::size_t>(kMaxColumns) && width * rows <= kMostValues) return;
  const ColumnCode& widest = *std::max_element(
      codes.begin(), codes.end(), [](const ColumnCode& a, const ColumnCode& b) { return a.width() < b.width(); });
  throw Error(Code::invalid, fmt::format("{} rows of {} would become {} inputs each, which is too many; column {} ({}) "
                                         "alone has {} categories: leave it out of the file",
                                         rows, table.name(), width, widest.source() + 1, table.header(widest.source()),
                                         widest.width()));
}

class TableCoder {
 public:
  TableCoder(const TableRows& train, const TableOptions& options)
      : target_(train, find_target(train.table, options.target), options.goal) {
    for (std::size_t i = 0; i < train.table.columns(); ++i) {
      if (i != target_.source()) columns_.push_back(ColumnCode::of(train, i));
      if (i != target_.source()) width_ += columns_.back().width();
    }
  }

  Dataset encode(const TableRows& part, std::string name) const {
    check_width(part.table, columns_, width_, part.rows.size());
    std::vector<float> values(part.rows.size() * width_);
    std::size_t first = 0;
    for (const ColumnCode& column : columns_) {
      for (std::size_t i = 0; i < part.rows.size(); ++i)
        column.write(part.table, part.rows[i], values.data() + i * width_ + first);
      first += column.width();
    }
    const int columns = static_cast<int>(width_);
    return target_.classes() > 0
               ? Dataset::of_rows(columns, target_.classes(), std::move(values), target_.labels(part), std::move(name))
               : Dataset::of_rows(columns, std::move(values), target_.numbers(part), std::move(name));
  }

  const std::vector<std::string>& class_names() const { return target_.class_names(); }

 private:
  TargetCode target_;
  std::vector<ColumnCode> columns_;
  std::size_t width_ = 0;
};

DataSplit encode(const TableRows& train, const TableRows& test, const TableOptions& options) {
  const TableCoder coder(train, options);
  Dataset trained = coder.encode(train, "the training part of " + train.table.name());
  DataSplit split = make_split(std::move(trained), coder.encode(test, "the test part of " + test.table.name()));
  split.class_names = coder.class_names();
  return split;
}

std::vector<std::uint32_t> all_rows(const CsvTable& table) {
  std::vector<std::uint32_t> rows(table.rows());
  std::iota(rows.begin(), rows.end(), 0U);
  return rows;
}

}  // namespace

TableOptions parse_table_options(std::string_view text) {
  const FileSpec spec = parse_file_spec(text, "csv", {"target", "test", "predict"});
  TableOptions options{.file = spec.file, .target = spec.option("target").value_or("")};
  if (const auto test = spec.option("test")) take_test(*test, options);
  if (const auto goal = spec.option("predict")) options.goal = parse_goal(*goal);
  return options;
}

DataSplit make_table_split(const CsvTable& table, const TableOptions& options) {
  const Division division = divide(table.rows(), options.test, kTestSeed, table.name());
  return encode({table, division.rest}, {table, division.drawn}, options);
}

DataSplit make_table_split(const CsvTable& train, const CsvTable& test, const TableOptions& options) {
  check_same_columns(train, test);
  const auto train_rows = all_rows(train);
  const auto test_rows = all_rows(test);
  return encode({train, train_rows}, {test, test_rows}, options);
}

DataSplit read_table(const TableOptions& options) {
  const CsvTable table = read_csv(options.file);
  if (options.test_file.empty()) return make_table_split(table, options);
  return make_table_split(table, read_csv(options.test_file), options);
}

}  // namespace paceline
