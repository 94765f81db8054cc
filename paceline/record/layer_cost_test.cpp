#include "paceline/record/layer_cost.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

TEST(LayerShares, AreRingBytesOverTheRateAgainstTheMeasuredComputation) {
  const std::vector<LayerCost> layers = {{"conv", 1'000'000, 3e9}, {"fc", 3'000'000, 1e9}};
  const LayerShares shares = layer_shares(layers, 4, 0.4);
  EXPECT_DOUBLE_EQ(shares.layers[0].gradient, 0.25);
  EXPECT_DOUBLE_EQ(shares.layers[1].gradient, 0.75);
  EXPECT_DOUBLE_EQ(shares.layers[0].compute_seconds, 0.3);
  EXPECT_DOUBLE_EQ(shares.layers[1].compute_seconds, 0.1);
  // fc: 12 MB, of which a ring of four sends 2 x 12 x 3/4 = 18 MB: 144 ms at 1 Gbit/s, 14.4 ms at 10.
  EXPECT_NEAR(shares.layers[1].communicate[0], 0.144 / 0.244, 1e-12);
  EXPECT_NEAR(shares.layers[1].communicate[1], 0.0144 / 0.1144, 1e-12);
  EXPECT_NEAR(shares.layers[1].communicate[2], 0.00144 / 0.10144, 1e-12);
  EXPECT_DOUBLE_EQ(shares.whole.gradient, 1);
  EXPECT_NEAR(shares.whole.communicate[0], 0.192 / 0.592, 1e-12);
}

TEST(LayerShares, ASingleWorkerSendsNothing) {
  const LayerShares shares = layer_shares({{"fc", 100, 200}}, 1, 0.1);
  for (const double share : shares.whole.communicate) EXPECT_EQ(share, 0);
}

TEST(LayerShares, ALayerWithoutFlopsOnlyCommunicates) {
  const LayerShares shares = layer_shares({{"embedding", 1000, 0}, {"fc", 1000, 2000}}, 2, 0.1);
  EXPECT_EQ(shares.layers[0].communicate[2], 1);
  const LayerShares nothing = layer_shares({{"relu", 0, 0}}, 2, 0.1);
  EXPECT_TRUE(std::isnan(nothing.layers[0].gradient));
}

// VGG-16 has 138 million parameters for 31 GFLOP (two per multiplication and addition) an image, ResNet-50 has 25.6
// million for 8.2 (Simonyan & Zisserman 2015, He et al. 2016): 4.5 against 3.1 parameters per thousand FLOPs. On one
// processor, 32 images and 16 workers, VGG loses more of its step to the network and gains more from a quicker one.
TEST(LayerShares, VggGainsMoreFromAQuickNetworkThanResNet) {
  constexpr double kFlopsPerSecond = 10e12, kImages = 32, kForwardAndBackward = 3;
  const auto shares = [&](std::int64_t parameters, double flops) {
    return layer_shares({{"net", parameters, flops}}, 16, kForwardAndBackward * kImages * flops / kFlopsPerSecond);
  };
  const LayerShares vgg = layer_shares({{"convolutions", 14'714'688, 30.7e9}, {"fc6", 102'764'544, 0.206e9}}, 16,
                                       kForwardAndBackward * kImages * 30.9e9 / kFlopsPerSecond);
  EXPECT_GT(vgg.layers[1].communicate[2], 0.9) << "its first fully connected layer waits even at 100 Gbit/s";
  EXPECT_LT(vgg.layers[0].communicate[2], 0.05);
  const LayerShare all_vgg = shares(138'357'544, 31e9).whole, resnet = shares(25'557'032, 8.2e9).whole;
  for (std::size_t i = 0; i < kLinkGigabits.size(); ++i) EXPECT_GT(all_vgg.communicate[i], resnet.communicate[i]);
  // The time of a step at 1 Gbit/s over that at 100: by so much a hundred times the rate shortens it.
  const auto gain = [](const LayerShare& net) { return (1 - net.communicate[2]) / (1 - net.communicate[0]); };
  EXPECT_GT(gain(all_vgg), gain(resnet));
}

}  // namespace
}  // namespace paceline
