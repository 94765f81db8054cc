#include "paceline/data/open.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "paceline/data/data_test_support.hpp"

namespace paceline {
namespace {

std::string refusal_of(const std::string& spec) {
  return refusal([&] { open_data(spec); });
}

std::map<int, int> count_labels(const Dataset& data) {
  std::map<int, int> often;
  for (const int label : data.all_labels()) ++often[label];
  return often;
}

int distance(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  int sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

int label_of_nearest(const Dataset& data, std::span<const std::uint8_t> pixels) {
  std::pair<int, int> best = {INT32_MAX, -1};
  for (std::size_t i = 0; i < data.size(); ++i) {
    best = std::min(best, {distance(pixels, data.pixels(i)), data.label(i)});
  }
  return best.second;
}

TEST(OpenData, AnUnknownNameIsAnsweredWithThoseThatThereAre) {
  EXPECT_EQ(refusal_of("cifar:/data"), "no data are called 'cifar': there are " + data_help());
  EXPECT_TRUE(says(refusal_of(""), "no data are called ''"));
  for (const char* name : {"fashion", "mnist", "cifar10", "digits", "csv", "text", "synthetic"})
    EXPECT_TRUE(says(data_help(), name));
}

TEST(OpenData, AFormThatIsIncompleteOrTooLongIsRefused) {
  EXPECT_EQ(refusal_of("mnist"), "mnist needs the folder of its files: mnist:DIR");
  EXPECT_EQ(refusal_of("mnist:"), "mnist needs the folder of its files: mnist:DIR");
  EXPECT_EQ(refusal_of("fashion:"), "fashion needs the folder of its files: fashion:DIR");
  EXPECT_EQ(refusal_of("digits:"), "digits are built in: nothing may follow the name");
  EXPECT_TRUE(says(refusal_of("mnist:/no/such"), "there is no folder /no/such, where mnist was to be read from"));
  EXPECT_TRUE(says(refusal_of("synthetic:wrong=1"), "in synthetic, 'wrong=1' is not known"));
}

TEST(OpenData, ReadsAFolderWithColonsInItsName) {
  const TemporaryFolder parent;
  const std::string folder = parent.path() + "/a:b";
  std::filesystem::create_directory(folder);
  for (const std::string part : {"train", "t10k"}) {
    parent.write("a:b/" + part + "-images-idx3-ubyte", idx_images(3));
    parent.write("a:b/" + part + "-labels-idx1-ubyte", idx_labels(3));
  }
  EXPECT_EQ(open_data("mnist:" + folder).train.name(), "mnist train");
  EXPECT_EQ(open_data("fashion:" + folder).test.name(), "fashion test");
}

TEST(OpenData, MakesSyntheticData) {
  const DataSplit split = open_data("synthetic:1x4x4,classes=3,train=20,test=10");
  EXPECT_EQ(split.train.size(), 20U);
  EXPECT_EQ(split.train.shape(), (Shape{1, 4, 4}));
}

TEST(Digits, AreAllThere) {
  const DataSplit split = open_data("digits");
  EXPECT_EQ(split.train.size(), 1497U);
  EXPECT_EQ(split.test.size(), 300U);
  EXPECT_EQ(split.train.shape(), (Shape{1, 8, 8}));
  EXPECT_EQ(*std::max_element(split.train.all_pixels().begin(), split.train.all_pixels().end()), 255);
  const auto train = count_labels(split.train);
  const auto test = count_labels(split.test);
  const int expected[] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
  for (int digit = 0; digit < 10; ++digit) {
    EXPECT_EQ(train.at(digit) + test.at(digit), expected[digit]);
    EXPECT_NEAR(test.at(digit), 30, 6);
  }
}

// The first line of the source.
TEST(Digits, TheFirstIsTheZeroOfTheSource) {
  const DataSplit split = open_data("digits");
  const auto pixels = split.test.pixels(0);
  const int row[] = {0, 0, 5, 13, 9, 1, 0, 0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(pixels[i] * 16 / 255.0, row[i], 0.04);
  EXPECT_EQ(split.test.label(0), 0);
}

TEST(Digits, CanBeLearnt) {
  const DataSplit split = open_data("digits");
  int right = 0;
  for (std::size_t i = 0; i < split.test.size(); ++i) {
    right += label_of_nearest(split.train, split.test.pixels(i)) == split.test.label(i) ? 1 : 0;
  }
  EXPECT_GE(right, 292);  // 97.3%
}

TEST(Fashion, IsAsItsAuthorsDescribeItWhereItIsInstalled) {
  const std::string why = "dataset-fashion-mnist";
  if (!std::filesystem::is_directory("/usr/share/datasets/fashion-mnist")) {
    EXPECT_TRUE(says(refusal_of("fashion"), why));
    GTEST_SKIP() << "Fashion-MNIST is not installed (Debian package " << why << ")";
  }
  const DataSplit split = open_data("fashion");
  EXPECT_EQ(split.train.size(), 60'000U);
  EXPECT_EQ(split.test.size(), 10'000U);
  EXPECT_EQ(split.train.shape(), (Shape{1, 28, 28}));
  for (const auto& [label, count] : count_labels(split.train)) EXPECT_EQ(count, 6000) << label;
  for (const auto& [label, count] : count_labels(split.test)) EXPECT_EQ(count, 1000) << label;
  EXPECT_NEAR(split.normalisation.mean, 0.2860, 0.0001);
  EXPECT_NEAR(1 / split.normalisation.scale, 0.3530, 0.0001);
  EXPECT_EQ(split.train.label(0), 9);  // an ankle boot
}

}  // namespace
}  // namespace paceline
