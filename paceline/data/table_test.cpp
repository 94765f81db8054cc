#include "paceline/data/table.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/data/data_test_support.hpp"
#include "paceline/data/open.hpp"

namespace paceline {
namespace {

using Values = std::vector<float>;

CsvTable parse(const std::string& text, const std::string& name = "a.csv") {
  return parse_csv(Bytes(text.begin(), text.end()), name);
}
DataSplit split_of(const std::string& train, const std::string& test, const TableOptions& options = {}) {
  return make_table_split(parse(train), parse(test, "b.csv"), options);
}
std::string refusal_of(const std::string& train, const std::string& test, const TableOptions& options = {}) {
  return refusal([&] { split_of(train, test, options); });
}
Values row(const Dataset& data, std::size_t i) { return Values(data.values(i).begin(), data.values(i).end()); }

TEST(Table, NumbersAreStandardisedWithTheTrainingPart) {
  const DataSplit split = split_of("x,y\n1,a\n3,b\n5,a\n", "x,y\n9,b\n");
  const float deviation = std::sqrt(8.0F / 3);
  EXPECT_FLOAT_EQ(row(split.train, 0)[0], -2 / deviation);
  EXPECT_FLOAT_EQ(row(split.train, 1)[0], 0);
  EXPECT_FLOAT_EQ(row(split.test, 0)[0], 6 / deviation);
  EXPECT_EQ(split.train.form().kind, Kind::table);
  EXPECT_EQ(split.train.shape().width, 1);
}

TEST(Table, AColumnOfEqualNumbersBecomesZero) {
  const DataSplit split = split_of("x,y\n7,a\n7,b\n", "x,y\n8,b\n");
  EXPECT_EQ(row(split.train, 1), Values{0});
  EXPECT_EQ(row(split.test, 0), Values{1});
}

TEST(Table, AMissingNumberIsTheMeanAndAnIndicator) {
  const DataSplit split = split_of("x,z,y\n-1,0,a\n?,0,b\n1,0,b\n", "x,z,y\n,NA,a\n1,4,b");
  EXPECT_EQ(row(split.train, 0), (Values{-1, 0, 0}));
  EXPECT_EQ(row(split.train, 1), (Values{0, 1, 0}));
  EXPECT_EQ(row(split.test, 0), (Values{0, 1, 0}));  // the training part of z has none missing: no indicator
  EXPECT_EQ(row(split.test, 1), (Values{1, 0, 4}));
}

TEST(Table, CategoriesAreOneHotInSortedOrder) {
  const DataSplit split = split_of("c,y\nred,a\n blue,b\n1,a\nred,b\n", "c,y\nblue,a\ngreen,b\nNA,a\n");
  EXPECT_EQ(row(split.train, 0), (Values{0, 0, 1}));
  EXPECT_EQ(row(split.train, 1), (Values{0, 1, 0}));
  EXPECT_EQ(row(split.train, 2), (Values{1, 0, 0}));
  EXPECT_EQ(row(split.test, 0), (Values{0, 1, 0}));
  EXPECT_EQ(row(split.test, 1), (Values{0, 0, 0}));  // unseen
  EXPECT_EQ(row(split.test, 2), (Values{0, 0, 0}));  // missing, but never in training
  const DataSplit missing = split_of("c,y\nred,a\nnull,b\n", "c,y\n?,a\n");
  EXPECT_EQ(row(missing.train, 1), (Values{0, 1}));
  EXPECT_EQ(row(missing.test, 0), (Values{0, 1}));
}

TEST(Table, ClassesAreInSortedOrder) {
  const DataSplit words = split_of("y,x\nmaybe,1\nyes,2\nno,3\n", "y,x\nno,1\n", {.target = "y"});
  EXPECT_EQ(words.class_names, (std::vector<std::string>{"maybe", "no", "yes"}));
  EXPECT_EQ(words.train.label(1), 2);
  EXPECT_EQ(words.test.label(0), 1);
  const DataSplit numbers = split_of("x,y\n1,10\n2,9\n3,10.0\n", "x,y\n1,1e1\n");
  EXPECT_EQ(numbers.class_names, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(numbers.train.label(2), 1);
  EXPECT_EQ(numbers.test.label(0), 1);
}

std::string counted(int rows, const std::string& suffix = "") {
  std::string text = "x,y\n";
  for (int i = 0; i < rows; ++i) text += "1," + std::to_string(i) + suffix + "\n";
  return text;
}

TEST(Table, TwentyDifferentIntegersAreClassesAndMoreAreNumbers) {
  EXPECT_EQ(split_of(counted(20), counted(1)).train.classes(), 20);
  EXPECT_EQ(split_of(counted(21), counted(1)).train.classes(), 0);
  EXPECT_EQ(split_of(counted(3, ".5"), counted(1)).train.classes(), 0);
  EXPECT_EQ(split_of(counted(3, ".5"), counted(1, ".5"), {.goal = Prediction::classes}).train.classes(), 3);
  EXPECT_EQ(split_of(counted(21), counted(1), {.goal = Prediction::classes}).train.classes(), 21);
  EXPECT_EQ(split_of(counted(5), counted(1), {.goal = Prediction::number}).train.classes(), 0);
}

TEST(Table, ANumberToPredictStaysInItsUnit) {
  const DataSplit split = split_of("price,x\n452600,1\n358500.5,2\n", "price,x\n-1,3\n", {.target = "price"});
  EXPECT_EQ(split.train.target(1), 358500.5F);
  EXPECT_EQ(split.test.target(0), -1);
}

TEST(Table, TheTestShareIsAlwaysTheSame) {
  std::string text = "x,y\n";
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  const DataSplit split = make_table_split(parse(text), {});
  EXPECT_EQ(split.train.size(), 80U);
  EXPECT_EQ(split.test.size(), 20U);
  EXPECT_EQ(split.fingerprint, make_table_split(parse(text), {}).fingerprint);
  EXPECT_NE(split.fingerprint, make_table_split(parse(text), {.test = 0.3}).fingerprint);
}

TEST(Table, WhatIsWrongIsSaidWithLineAndColumn) {
  const std::string good = "x,y\n1,a\n2,b\n";
  EXPECT_TRUE(
      says(refusal_of("x,y\n1,a\n2,?\n", good), "a.csv, line 3, column 2 (y): what is to be predicted is missing"));
  EXPECT_TRUE(says(refusal_of(good, "x,y\n1,\n"), "b.csv, line 2, column 2 (y): what is to be predicted is missing"));
  EXPECT_TRUE(says(refusal_of(good, "x,y\n1,c\n"), "b.csv, line 2, column 2 (y): the test part has class 'c', which"));
  EXPECT_TRUE(says(refusal_of("x,y\n1,0\n2,1", "x,y\n1,z\n"), "the test part has class 'z', which"));
  EXPECT_TRUE(says(refusal_of(good, "x,y\nten,a\n"), "b.csv, line 2, column 1 (x): 'ten' is no number"));
  EXPECT_TRUE(says(refusal_of(good, "x,y\n1e99,a\n"), "b.csv, line 2, column 1 (x): 1e99 is too far from"));
  EXPECT_TRUE(says(refusal_of("x,y\n1e308,a\n-1e308,b", good), "column 1 (x) of a.csv are too large"));
  EXPECT_TRUE(
      says(refusal_of(good, good, {.goal = Prediction::number}), "line 2, column 2 (y): a number is to be predicted"));
  EXPECT_TRUE(says(refusal_of(good, good, {.target = "z"}), "a.csv has no column 'z': there are x, y"));
  EXPECT_TRUE(says(refusal_of(good, "x,z\n1,a\n"), "column 2 of b.csv is 'z', but that of a.csv is 'y'"));
  EXPECT_TRUE(says(refusal_of(good, "x\n1\n"), "column 2 of b.csv is 'no more', but"));
  EXPECT_TRUE(says(refusal_of("x,y\n1,a\n2,a\n", good), "column 2 (y) of a.csv has the same value everywhere"));
  EXPECT_TRUE(says(refusal_of("x\nq\n", "x\nq\n"), "a.csv has a single column"));
  EXPECT_TRUE(says(refusal_of(counted(257, "q"), counted(1, "q")), "has 257 classes, but there may be 256; target="));
  EXPECT_TRUE(says(refusal_of(counted(300), counted(1), {.goal = Prediction::classes}), "; predict=number takes it"));
}

TEST(Table, AColumnOfTooManyCategoriesIsNamed) {
  std::string text = "id,y\n";
  for (int i = 0; i < 70'000; ++i) text += "u" + std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  EXPECT_TRUE(says(refusal_of(text, "id,y\nu1,1\n"), "column 1 (id) alone has 70000 categories"));
}

TEST(Table, OptionsAreRead) {
  const TableOptions options = parse_table_options("h.csv,target=price,test=25%,predict=number");
  EXPECT_EQ(options.file, "h.csv");
  EXPECT_EQ(options.target, "price");
  EXPECT_EQ(options.test, 0.25);
  EXPECT_EQ(options.goal, Prediction::number);
  EXPECT_EQ(parse_table_options("h.csv,test=other.csv").test_file, "other.csv");
  EXPECT_TRUE(says(refusal([] { parse_table_options("h.csv,test=120%"); }), "needs a share above 0%"));
  EXPECT_TRUE(says(refusal([] { parse_table_options("h.csv,predict=x"); }), "must be predict=class or"));
  EXPECT_TRUE(says(refusal([] { parse_table_options("h.csv,sep=;"); }), "'sep=;' is not known"));
}

TEST(Table, IsOpenedByItsName) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    return folder.write(name, gzip(Bytes(text.begin(), text.end())));
  };
  const std::string train = write("train.csv.gz", "x,y\n1,a\n2,b\n");
  const std::string test = write("test.csv.gz", "x,y\n3,b\n");
  const DataSplit split = open_data("csv:" + train + ",test=" + test + ",target=y");
  EXPECT_EQ(split.train.size(), 2U);
  EXPECT_EQ(split.test.label(0), 1);
}

TEST(Table, CalifornianHousesAreReadWhereTheyAre) {
  const std::string file = PACELINE_SHARED_DATA "/regression/california_housing.csv";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "there is no " << file;
  const DataSplit houses = open_data("csv:" + file + ",target=median_house_value");
  EXPECT_EQ(houses.train.size(), 16'512U);
  EXPECT_EQ(houses.test.size(), 4'128U);
  EXPECT_EQ(houses.train.classes(), 0);
  ASSERT_EQ(houses.train.shape().width, 8 + 1 + 5);  // numbers, missing bedrooms, places
  int missing = 0;
  double sum = 0, squares = 0;
  for (const Dataset& part : {houses.train, houses.test}) {
    for (std::size_t i = 0; i < part.size(); ++i) missing += part.values(i)[5] == 1 ? 1 : 0;
  }
  for (std::size_t i = 0; i < houses.train.size(); ++i) {
    sum += houses.train.values(i)[0];
    squares += houses.train.values(i)[0] * houses.train.values(i)[0];
  }
  EXPECT_EQ(missing, 207);
  EXPECT_NEAR(sum / 16'512, 0, 1e-4);
  EXPECT_NEAR(squares / 16'512, 1, 1e-4);
  const DataSplit places = open_data("csv:" + file);
  EXPECT_EQ(places.class_names, (std::vector<std::string>{"<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"}));
}

TEST(Table, SmallRealOnesAreReadWhereTheyAre) {
  const std::string folder = PACELINE_SHARED_DATA "/sklearn-bundled";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "there is no " << folder;
  const DataSplit iris = open_data("csv:" + folder + "/iris.csv");  // its own header, odd as it is
  EXPECT_EQ(iris.train.size() + iris.test.size(), 150U);
  EXPECT_EQ(iris.train.shape().width, 4);
  EXPECT_EQ(iris.train.classes(), 3);
  EXPECT_TRUE(says(refusal([&] { open_data("csv:" + folder + "/wine_data.csv"); }),
                   "wine_data.csv, line 2: 14 columns, but the header has 5"));
  EXPECT_TRUE(says(refusal([&] { open_data("csv:" + folder + "/digits.csv.gz"); }), "to name the columns"));
}

}  // namespace
}  // namespace paceline
