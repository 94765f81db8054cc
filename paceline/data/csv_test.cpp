#include "paceline/data/csv.hpp"

#include <gtest/gtest.h>

#include "paceline/data/data_test_support.hpp"
#include "paceline/data/numbers.hpp"

namespace paceline {
namespace {

using Row = std::vector<std::string>;

Bytes bytes_of(const std::string& text) { return Bytes(text.begin(), text.end()); }
CsvTable parse(const std::string& text) { return parse_csv(bytes_of(text), "a.csv"); }
std::string refusal_of(const std::string& text) {
  return refusal([&] { parse(text); });
}

Row row_of(const CsvTable& table, std::size_t row) {
  Row cells;
  for (std::size_t i = 0; i < table.columns(); ++i) cells.emplace_back(table.cell(row, i));
  return cells;
}

TEST(Csv, ReadsRowsUnderAHeader) {
  const CsvTable table = parse("x,y\n1,2\n3,4\n");
  ASSERT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.header(1), "y");
  EXPECT_EQ(row_of(table, 1), (Row{"3", "4"}));
  EXPECT_EQ(table.place(1, 0), "a.csv, line 3, column 1 (x)");
}

TEST(Csv, LinesEndInAnyWayThatIsUsual) {
  for (const std::string text :
       {"x,y\n1,2\n3,4", "x,y\r\n1,2\r\n3,4\r\n", "x,y\n\n1,2\r\n\r\n3,4\n\n", "\nx,y\n1,2\n3,4\r"}) {
    const CsvTable table = parse(text);
    ASSERT_EQ(table.rows(), 2U) << text;
    EXPECT_EQ(row_of(table, 0), (Row{"1", "2"})) << text;
    EXPECT_EQ(row_of(table, 1), (Row{"3", "4"})) << text;
  }
}

TEST(Csv, QuotesHoldCommasLineEndsAndQuotes) {
  const CsvTable table = parse("name,\"what, then\"\n\"a\nb\r\nc\",\"say \"\"yes\"\"\"\n\"\",x\n");
  EXPECT_EQ(table.header(1), "what, then");
  EXPECT_EQ(row_of(table, 0), (Row{"a\nb\r\nc", "say \"yes\""}));
  EXPECT_EQ(row_of(table, 1), (Row{"", "x"}));
  EXPECT_EQ(table.line(1), 5U);  // the first row has three lines
}

TEST(Csv, CellsMayBeEmptyAndHaveBlanksAroundThem) {
  const CsvTable table = parse("x,y,z\n,,\n a , b c,\t\n,,q");
  EXPECT_EQ(row_of(table, 0), (Row{"", "", ""}));
  EXPECT_EQ(row_of(table, 1), (Row{"a", "b c", ""}));
  EXPECT_EQ(row_of(table, 2), (Row{"", "", "q"}));
  EXPECT_EQ(row_of(parse("x,y\n1,"), 0), (Row{"1", ""}));
}

TEST(Csv, MayBeCompressedAndBeginWithAByteOrderMark) {
  EXPECT_EQ(parse("\xEF\xBB\xBFx,y\n1,2").header(0), "x");
  EXPECT_EQ(parse_csv(gzip(bytes_of("x,y\n1,2")), "a.csv").rows(), 1U);
}

TEST(Csv, MovesKeepTheCells) {
  CsvTable table = parse("x,y\n1,2");
  const CsvTable moved = std::move(table);
  EXPECT_EQ(row_of(moved, 0), (Row{"1", "2"}));
}

TEST(Csv, AMalformedFileIsRefusedWithLineAndColumn) {
  EXPECT_EQ(refusal_of(""), "a.csv is empty");
  EXPECT_EQ(refusal_of("\n\r\n"), "a.csv is empty");
  EXPECT_EQ(refusal_of("x,y\n"), "a.csv has a header, but no rows");
  EXPECT_EQ(refusal_of("x,y\n1,2\n3\n"), "a.csv, line 3: 1 column, but the header has 2");
  EXPECT_EQ(refusal_of("x,y\n\"a\nb\",2\n1,2,3"), "a.csv, line 4: 3 columns, but the header has 2");
  EXPECT_EQ(refusal_of("x,y\n1,\"2\n3,4\n"), "a.csv, line 2, column 2: a quote opens here that nothing closes");
  EXPECT_EQ(refusal_of("x,y\n1,\""), "a.csv, line 2, column 2: a quote opens here that nothing closes");
  EXPECT_TRUE(says(refusal_of("x,y\n\"a\"b,2"), "a.csv, line 2, column 1: 'b' follows a closing quote"));
  EXPECT_TRUE(says(refusal_of("x,y\n1,a\"b\""), "a.csv, line 2, column 2: a quote in a cell that does not begin"));
  EXPECT_TRUE(says(refusal_of("x,y\ra,b\n1,2"), "a.csv, line 1, column 2: a carriage return"));
  EXPECT_TRUE(says(refusal_of(std::string("x,y\n1,\0", 7)), "a.csv, line 2, column 2: a byte of value 0"));
  EXPECT_TRUE(says(refusal_of("x,y,x\n1,2,3"), "a.csv, line 1, column 3: the header names 'x' twice"));
  EXPECT_TRUE(says(refusal_of("1,2.5\n3,4"), "a.csv, line 1, column 1: the first line is to name the columns"));
  EXPECT_TRUE(says(refusal_of("x;y\n1;2"), "cells are separated by commas"));
}

TEST(Csv, TooManyColumnsAreRefused) {
  EXPECT_TRUE(says(refusal_of(std::string(70'000, ',')), "there may be 65536 columns at most"));
}

TEST(Numbers, AreFiniteAndTheWholeCell) {
  EXPECT_EQ(parse_number("-2.5"), -2.5);
  EXPECT_EQ(parse_number("+3e4"), 3e4);
  EXPECT_EQ(parse_number(".5"), 0.5);
  for (const char* cell : {"", "x", "1x", "1 2", "inf", "nan", "1e999", "+-1", "++1", "0x10", "1,5"})
    EXPECT_FALSE(parse_number(cell)) << cell;
}

TEST(Numbers, MissingHasManyNames) {
  for (const char* cell : {"", "NA", "n/a", "NaN", "null", "NULL", "?"}) EXPECT_TRUE(is_missing(cell)) << cell;
  for (const char* cell : {"0", "none", "-", "nanny", "n", "??"}) EXPECT_FALSE(is_missing(cell)) << cell;
}

}  // namespace
}  // namespace paceline
