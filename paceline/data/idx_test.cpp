#include "paceline/data/idx.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "paceline/data/data_test_support.hpp"
#include "paceline/data/split.hpp"

namespace paceline {
namespace {

std::string images_refusal(const Bytes& file) {
  const std::string plain = refusal([&] { parse_idx_images(file, "images"); });
  EXPECT_EQ(refusal([&] { parse_idx_images(gzip(file), "images"); }), plain);
  return plain;
}

std::string labels_refusal(const Bytes& file) {
  const std::string plain = refusal([&] { parse_idx_labels(file, "labels", 10); });
  EXPECT_EQ(refusal([&] { parse_idx_labels(gzip(file), "labels", 10); }), plain);
  return plain;
}

TEST(Idx, ReadsImagesAndLabelsPackedOrNot) {
  for (const bool packed : {false, true}) {
    const Bytes file = packed ? gzip(idx_images(4)) : idx_images(4);
    const IdxImages images = parse_idx_images(file, "images");
    EXPECT_EQ(images.shape, (Shape{.channels = 1, .height = 2, .width = 3}));
    EXPECT_EQ(images.count, 4U);
    EXPECT_EQ(images.pixels.size(), 24U);
    EXPECT_EQ(images.pixels[23], 23);
    const Bytes labels = packed ? gzip(idx_labels(12)) : idx_labels(12);
    EXPECT_EQ(parse_idx_labels(labels, "labels", 10), (Bytes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
  }
}

TEST(Idx, EveryTruncationIsRefused) {
  const Bytes whole = idx_images(3);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string sentence =
        images_refusal(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    if (length < 16) {
      EXPECT_TRUE(says(sentence, "images ends within its IDX header"));
    } else {
      EXPECT_TRUE(
          says(sentence, "speaks of 3 examples, but the file ends in example " + std::to_string((length - 16) / 6)));
    }
  }
}

TEST(Idx, AWrongMagicNumberIsRefused) {
  EXPECT_TRUE(says(images_refusal(big_endian({0x12345678, 1, 1, 1})),
                   "images begins with 0x12345678, but an IDX file of images begins with 0x00000803"));
  EXPECT_TRUE(says(images_refusal(idx_labels(20)), "images begins with 0x00000801, as labels do, but"));
  EXPECT_TRUE(
      says(labels_refusal(idx_images(2)), "labels begins with 0x00000803, as images do, but an IDX file of labels"));
}

TEST(Idx, AHeaderThatLiesIsRefusedWithoutTakingTheMemory) {
  EXPECT_TRUE(
      says(images_refusal(big_endian({0x803, 1'000'000'000, 4096, 4096}) + Bytes(100)), "file ends in example 0"));
  EXPECT_TRUE(
      says(images_refusal(big_endian({0x803, 0xffffffff, 28, 28})), "speaks of 4294967295 examples, more than"));
  EXPECT_TRUE(says(images_refusal(big_endian({0x803, 1, 4097, 28})), "a side of 4097 pixels, but 1 to 4096"));
  EXPECT_TRUE(says(images_refusal(big_endian({0x803, 1, 28, 0})), "a side of 0 pixels"));
  EXPECT_TRUE(says(labels_refusal(big_endian({0x801, 1'000'000'000}) + Bytes(7)), "file ends in example 7"));
}

TEST(Idx, AnEmptySetIsRefused) {
  EXPECT_TRUE(says(images_refusal(big_endian({0x803, 0, 28, 28})), "images holds no examples"));
  EXPECT_TRUE(says(labels_refusal(big_endian({0x801, 0})), "labels holds no examples"));
}

TEST(Idx, TrailingGarbageIsRefused) {
  EXPECT_TRUE(says(images_refusal(idx_images(3) + Bytes{0}), "images goes on after the 3 examples"));
  EXPECT_TRUE(says(labels_refusal(idx_labels(3) + Bytes{0}), "labels goes on after the 3 examples"));
  EXPECT_TRUE(says(refusal([] { parse_idx_labels(gzip(idx_labels(3)) + Bytes{0}, "labels", 10); }), "no gzip data"));
}

TEST(Idx, ADamagedChecksumIsRefusedAlthoughAllBytesAreThere) {
  Bytes file = gzip(idx_labels(3));
  file[file.size() - 6] ^= 1;
  EXPECT_TRUE(says(refusal([&] { parse_idx_labels(file, "labels", 10); }), "incorrect data check"));
}

TEST(Idx, ALabelOutOfRangeIsRefused) {
  EXPECT_TRUE(says(labels_refusal(big_endian({0x801, 3}) + Bytes{1, 9, 10}),
                   "label of example 2 in labels is 10, but there are 10"));
}

class IdxFolder : public ::testing::Test {
 protected:
  IdxFolder() {
    folder_.write("train-images-idx3-ubyte", idx_images(7));
    folder_.write("train-labels-idx1-ubyte.gz", gzip(idx_labels(7)));
    folder_.write("t10k-images-idx3-ubyte.gz", gzip(idx_images(4)));
    folder_.write("t10k-labels-idx1-ubyte", idx_labels(4));
  }
  std::string sentence() const {
    return refusal([&] { read_idx_folder(folder_.path(), "mnist", 10); });
  }
  TemporaryFolder folder_;
};

TEST_F(IdxFolder, IsReadWithAnyMixtureOfPackedFiles) {
  const DataSplit split = read_idx_folder(folder_.path(), "mnist", 10);
  EXPECT_EQ(split.train.size(), 7U);
  EXPECT_EQ(split.train.name(), "mnist train");
  EXPECT_EQ(split.train.pixels(6)[5], 41);
  EXPECT_EQ(split.train.label(6), 6);
  EXPECT_EQ(split.test.size(), 4U);
  EXPECT_EQ(split.test.classes(), 10);
  EXPECT_EQ(split.fingerprint, fingerprint_of(split.train, split.test));
}

TEST_F(IdxFolder, AMissingFileIsNamed) {
  folder_.remove("t10k-labels-idx1-ubyte");
  EXPECT_TRUE(says(sentence(), "there is neither " + folder_.path() + "/t10k-labels-idx1-ubyte nor " + folder_.path() +
                                   "/t10k-labels-idx1-ubyte.gz"));
}

TEST_F(IdxFolder, ThatIsMissingIsNamed) {
  EXPECT_TRUE(says(refusal([&] { read_idx_folder(folder_.path() + "/none", "mnist", 10); }), "there is no folder"));
}

TEST_F(IdxFolder, ImagesAndLabelsThatDoNotBelongTogetherAreRefused) {
  folder_.write("t10k-labels-idx1-ubyte", idx_labels(5));
  EXPECT_TRUE(says(sentence(), "t10k-images-idx3-ubyte.gz has 4 images, but "));
  EXPECT_TRUE(says(sentence(), "t10k-labels-idx1-ubyte has 5 labels"));
}

TEST_F(IdxFolder, TestImagesOfAnotherShapeAreRefused) {
  folder_.write("t10k-images-idx3-ubyte.gz", gzip(big_endian({0x803, 4, 1, 1}) + Bytes(4)));
  EXPECT_TRUE(
      says(sentence(), "mnist train has images of 1x2x3 in 10 classes, but mnist test has images of 1x1x1 in 10"));
}

TEST_F(IdxFolder, AFileThatIsATruncatedGzipIsNamed) {
  Bytes packed = gzip(idx_images(4));
  packed.erase(packed.end() - 3, packed.end());
  folder_.write("t10k-images-idx3-ubyte.gz", packed);
  EXPECT_TRUE(says(sentence(), folder_.path() + "/t10k-images-idx3-ubyte.gz ends after "));
}

TEST_F(IdxFolder, AFolderInPlaceOfAFileIsRefused) {
  folder_.remove("train-images-idx3-ubyte");
  std::filesystem::create_directory(folder_.path() + "/train-images-idx3-ubyte");
  EXPECT_TRUE(says(sentence(), "train-images-idx3-ubyte: not a file"));
}

}  // namespace
}  // namespace paceline
