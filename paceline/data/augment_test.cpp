#include "paceline/data/augment.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <tuple>

#include "paceline/data/batch.hpp"
#include "paceline/data/data_test_support.hpp"
#include "paceline/data/loader.hpp"

namespace paceline {
namespace {

PixelTable identity() {
  PixelTable table;
  std::iota(table.begin(), table.end(), 0.0F);
  return table;
}

std::vector<float> placed(const Bytes& plane, const Shape& shape, const Placement& placement) {
  std::vector<float> out(plane.size(), -1);
  place_plane(plane, shape, placement, identity(), out.data());
  return out;
}

// The plain way: pad, cut out, mirror.
std::vector<float> reference(const Bytes& plane, const Shape& shape, const Placement& placement) {
  std::vector<float> out;
  for (int y = 0; y < shape.height; ++y) {
    for (int x = 0; x < shape.width; ++x) {
      const int row = y + placement.down;
      const int column = (placement.mirrored ? shape.width - 1 - x : x) + placement.right;
      const bool inside = row >= 0 && row < shape.height && column >= 0 && column < shape.width;
      out.push_back(inside ? plane[static_cast<std::size_t>(row * shape.width + column)] : 0);
    }
  }
  return out;
}

TEST(Augmentation, IsRead) {
  EXPECT_EQ(parse_augmentation("flip,crop:4"), (Augmentation{.flip = true, .crop = 4}));
  EXPECT_EQ(parse_augmentation("crop:2"), (Augmentation{.crop = 2}));
  EXPECT_EQ(parse_augmentation("none"), Augmentation{});
  for (const char* text : {"flip", "crop:3", "flip,crop:4", "none"})
    EXPECT_EQ(to_string(parse_augmentation(text)), text);
  for (const char* text : {"", "flop", "flip,", ",flip", "flip,none", "Flip"})
    EXPECT_TRUE(says(refusal([&] { parse_augmentation(text); }), "is no augmentation: there are flip and crop:N"));
  for (const char* text : {"crop", "crop:", "crop:0", "crop:-1", "crop:4096", "crop:2x"})
    EXPECT_TRUE(says(refusal([&] { parse_augmentation(text); }), "needs a number of pixels from 1 to 4095")) << text;
  EXPECT_TRUE(says(refusal([&] { parse_augmentation("flip,flip"); }), "names flip twice"));
  EXPECT_TRUE(says(refusal([&] { parse_augmentation("crop:1,crop:2"); }), "names crop twice"));
}

TEST(Augmentation, IsForImagesThatAreLargeEnough) {
  const Augmentation crop{.crop = 4};
  const auto refused = [&](const Form& form) { return refusal([&] { check_augmentation(crop, form); }); };
  EXPECT_EQ(refused({.shape = {1, 5, 5}, .classes = 2}), "accepted");
  EXPECT_TRUE(says(refused({.shape = {1, 5, 4}, .classes = 2}), "crop:4 would move images of 1x5x4"));
  EXPECT_TRUE(says(refused({.kind = Kind::text, .shape = {1, 1, 64}, .classes = 9}), "is for images, not for text"));
  EXPECT_EQ(refusal([] { check_augmentation({}, {.kind = Kind::table, .shape = {}}); }), "accepted");
}

TEST(PlacePlane, DoesWhatThePlainWayDoes) {
  const Shape shape{1, 3, 5};
  Bytes plane(15);
  std::iota(plane.begin(), plane.end(), std::uint8_t{1});
  EXPECT_EQ(placed(plane, shape, {.right = 1, .mirrored = true}),
            (std::vector<float>{0, 5, 4, 3, 2, 0, 10, 9, 8, 7, 0, 15, 14, 13, 12}));
  for (int down = -4; down <= 4; ++down) {
    for (int right = -6; right <= 6; ++right) {
      for (const bool mirrored : {false, true}) {
        const Placement placement{down, right, mirrored};
        EXPECT_EQ(placed(plane, shape, placement), reference(plane, shape, placement)) << down << right << mirrored;
      }
    }
  }
}

TEST(Augmenter, EveryPlacementHasTheSameChance) {
  const Augmenter augmenter{.augmentation = {.flip = true, .crop = 1}, .seed = 5, .epoch = 2};
  std::map<std::tuple<int, int, bool>, int> often;
  for (std::uint32_t example = 0; example < 18'000; ++example) {
    const Placement placement = augmenter.place(example);
    ++often[{placement.down, placement.right, placement.mirrored}];
  }
  EXPECT_EQ(often.size(), 18U);
  for (const auto& [placement, count] : often) EXPECT_NEAR(count, 1000, 155);  // five standard deviations
}

TEST(Augmenter, DrawsByWhatIsAskedFor) {
  const Augmenter flip{.augmentation = {.flip = true}};
  const Augmenter crop{.augmentation = {.crop = 3}};
  for (std::uint32_t example = 0; example < 100; ++example) {
    EXPECT_TRUE(flip.place(example).down == 0 && flip.place(example).right == 0);
    EXPECT_FALSE(crop.place(example).mirrored);
  }
}

TEST(Augmenter, AnotherEpochOrSeedDrawsAnew) {
  const auto drawn = [](std::uint64_t seed, int epoch) {
    std::vector<int> down;
    for (std::uint32_t example = 0; example < 50; ++example)
      down.push_back(Augmenter{.augmentation = {.crop = 4}, .seed = seed, .epoch = epoch}.place(example).down);
    return down;
  };
  EXPECT_EQ(drawn(1, 1), drawn(1, 1));
  EXPECT_NE(drawn(1, 1), drawn(1, 2));
  EXPECT_NE(drawn(1, 1), drawn(2, 1));
}

Dataset pictures(std::size_t size) {
  Bytes pixels;
  for (std::size_t i = 0; i < size * 2 * 5 * 4; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 31 % 251));
  return Dataset({2, 5, 4}, 1, pixels, Bytes(size), "pictures");
}

// Each example's picture, by its values, as `workers` workers see it in an epoch of which `consumed` are done.
std::map<std::uint32_t, std::vector<float>> epoch_of(int workers, int batch, std::size_t consumed) {
  const Dataset data = pictures(60);
  const SamplerOptions options{.samples = 60, .batch = batch, .workers = workers, .seed = 9};
  std::map<std::uint32_t, std::vector<float>> seen;
  for (int worker = 0; worker < workers; ++worker) {
    Loader loader(data, {}, options, worker, {.flip = true, .crop = 2});
    Sampler sampler(options);
    loader.begin_epoch(3, consumed);
    sampler.begin_epoch(3, consumed);
    for (std::size_t step = 0; const Batch* loaded = loader.next(); ++step) {
      const auto indices = sampler.indices(step, worker);
      for (std::size_t i = 0; i < indices.size(); ++i)
        seen[indices[i]] = {loaded->values.begin() + static_cast<std::ptrdiff_t>(i * 40),
                            loaded->values.begin() + static_cast<std::ptrdiff_t>((i + 1) * 40)};
    }
  }
  return seen;
}

TEST(Loader, AugmentsTheSameWayForAnyNumberOfWorkersAndAfterResuming) {
  const auto one = epoch_of(1, 6, 0);
  EXPECT_EQ(one.size(), 60U);
  EXPECT_EQ(epoch_of(3, 4, 0), one);
  for (const auto& [example, values] : epoch_of(2, 5, 24)) EXPECT_EQ(values, one.at(example));
}

TEST(Loader, RefusesToAugmentWhatIsTooSmall) {
  EXPECT_TRUE(says(refusal([] { Loader(pictures(10), {}, {.samples = 10, .batch = 2}, 0, {.crop = 4}); }),
                   "crop:4 would move"));
}

TEST(Fill, AugmentsEachChannelAlikeAndBlackBecomesWhatItIsElsewhere) {
  const Dataset data({2, 1, 2}, 1, {51, 102, 153, 204}, {0}, "one");
  const Normalisation normalisation{.channels = {{.mean = 0.2F, .scale = 2}, {.mean = 0.4F, .scale = 5}}};
  const std::uint32_t only[] = {0};
  for (int epoch = 0; epoch < 50; ++epoch) {
    const Augmenter augmenter{.augmentation = {.flip = true, .crop = 1}, .seed = 3, .epoch = epoch};
    Batch batch;
    fill(batch, data, normalisation, only, augmenter);
    const Placement placement = augmenter.place(0);
    const auto red = reference({51, 102}, {1, 1, 2}, placement);
    const auto green = reference({153, 204}, {1, 1, 2}, placement);
    for (std::size_t x = 0; x < 2; ++x) {
      EXPECT_FLOAT_EQ(batch.values[x], (red[x] / 255 - 0.2F) * 2);
      EXPECT_FLOAT_EQ(batch.values[2 + x], (green[x] / 255 - 0.4F) * 5);
    }
  }
}

}  // namespace
}  // namespace paceline
