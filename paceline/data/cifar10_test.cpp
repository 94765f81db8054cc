#include "paceline/data/cifar10.hpp"

#include <gtest/gtest.h>

#include <map>

#include "paceline/data/data_test_support.hpp"
#include "paceline/data/open.hpp"

namespace paceline {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

// Records of these labels; red is the label's tenfold, green 1 more, blue 2 more.
Bytes records(const Bytes& labels) {
  Bytes bytes;
  for (const std::uint8_t label : labels) {
    bytes.push_back(label);
    for (int channel = 0; channel < 3; ++channel)
      bytes.insert(bytes.end(), 1024, static_cast<std::uint8_t>(10 * label + channel));
  }
  return bytes;
}

std::string refusal_of(const Bytes& file) {
  return refusal([&] {
    CifarRecords records;
    parse_cifar10(file, "a.bin", records);
  });
}

TEST(Cifar10, ReadsTheBatchesThatAreThere) {
  const TemporaryFolder folder;
  folder.write("data_batch_1.bin", records({3, 0}));
  folder.write("data_batch_4.bin.gz", gzip(records({9})));
  folder.write("test_batch.bin", records({1, 2}));
  const DataSplit split = open_data("cifar10:" + folder.path());
  ASSERT_EQ(split.train.size(), 3U);
  EXPECT_EQ(split.test.size(), 2U);
  EXPECT_EQ(split.train.shape(), kCifarShape);
  EXPECT_EQ(split.train.label(0), 3);
  EXPECT_EQ(split.train.label(2), 9);
  EXPECT_EQ(split.train.pixels(2)[0], 90);
  EXPECT_EQ(split.train.pixels(2)[1024], 91);
  EXPECT_EQ(split.train.pixels(2)[kPixels - 1], 92);
}

TEST(Cifar10, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  const std::string spec = "cifar10:" + folder.path();
  const auto refused = [&] { return refusal([&] { open_data(spec); }); };
  EXPECT_TRUE(says(refused(), "there is none of data_batch_1.bin to data_batch_5.bin in " + folder.path()));
  folder.write("data_batch_1.bin", records({1}));
  EXPECT_TRUE(says(refused(), "there is neither " + folder.path() + "/test_batch.bin nor"));
  EXPECT_EQ(refusal([] { open_data("cifar10"); }), "cifar10 needs the folder of its files: cifar10:DIR");
  EXPECT_TRUE(says(refusal([] { open_data("cifar10:/no/such"); }), "there is no folder /no/such"));
}

TEST(Cifar10, AFileThatIsCutOrWrongIsRefusedWithItsRecord) {
  Bytes cut = records({1, 2});
  cut.pop_back();
  EXPECT_TRUE(says(refusal_of(cut), "a.bin has 6145 bytes and so ends in record 1"));
  EXPECT_TRUE(says(refusal_of(gzip(cut)), "a.bin has 6145 bytes"));
  EXPECT_TRUE(says(refusal_of({}), "a.bin is empty"));
  EXPECT_EQ(refusal_of(records({1, 9, 10})),
            "the label of record 2 in a.bin is 10, but CIFAR-10 has 10 classes, from 0");
}

TEST(Cifar10, TheRealOneIsReadWhereItIs) {
  const std::string folder = PACELINE_SHARED_DATA "/cifar10";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "there is no CIFAR-10 in " << folder;
  const DataSplit split = open_data("cifar10:" + folder);
  EXPECT_EQ(split.train.size(), 4000U);
  EXPECT_EQ(split.test.size(), 2000U);
  EXPECT_EQ(split.train.label(0), 6);  // a frog
  std::map<int, int> often;
  for (const int label : split.train.all_labels()) ++often[label];
  for (int label = 0; label < 10; ++label) EXPECT_NEAR(often[label], 400, 70) << label;
  // Of the whole set: 0.4914, 0.4822, 0.4465 and 0.2470, 0.2435, 0.2616.
  ASSERT_EQ(split.normalisation.channels.size(), 3U);
  const double means[] = {0.4914, 0.4822, 0.4465};
  const double deviations[] = {0.2470, 0.2435, 0.2616};
  for (int channel = 0; channel < 3; ++channel) {
    EXPECT_NEAR(split.normalisation.of(channel).mean, means[channel], 0.01);
    EXPECT_NEAR(1 / split.normalisation.of(channel).scale, deviations[channel], 0.01);
  }
}

}  // namespace
}  // namespace paceline
