#include "paceline/launch/devices.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

const std::vector<NetworkDevice> kSome = {
    {"lo", "127.0.0.1", true}, {"eth0", "10.0.0.1", false}, {"ib0", "10.1.0.1", false}, {"eth0", "fd00::1", false}};

TEST(Devices, ThoseOfThisHostHaveLoopbackAmongThem) {
  bool loopback = false;
  for (const NetworkDevice& device : network_devices()) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_FALSE(device.address.empty());
    loopback |= device.loopback && device.address == "127.0.0.1";
  }
  EXPECT_TRUE(loopback);
}

TEST(Devices, TheOneAskedForIsTakenByNameOrByAddress) {
  EXPECT_EQ(choose_device(kSome, "ib0", "10.0.0.1").address, "10.1.0.1");
  EXPECT_EQ(choose_device(kSome, "10.1.0.1", "10.0.0.1").name, "ib0");
  EXPECT_EQ(outward_device(kSome, "ib0").name, "ib0");
}

TEST(Devices, OtherwiseTheOneThatLeadsToTheStoreIs) {
  EXPECT_EQ(choose_device(kSome, "", "10.0.0.1").name, "eth0");
  EXPECT_EQ(choose_device(kSome, "", "127.0.0.1").name, "lo");
}

TEST(Devices, AWrongNameIsRefusedWithAListOfTheRightOnes) {
  try {
    choose_device(kSome, "eth7", "10.0.0.1");
    FAIL() << "there is no eth7";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_EQ(std::string(error.what()),
              "there is no network device 'eth7' that is up and has an address; there is: lo (127.0.0.1), eth0 "
              "(10.0.0.1), ib0 (10.1.0.1), eth0 (fd00::1)");
  }
  EXPECT_THROW(choose_device(kSome, "", "10.9.9.9"), Error);
}

TEST(Devices, OneThatLeadsOutIsPreferredToLoopback) {
  EXPECT_NE(outward_device(kSome, "").name, "lo");
  EXPECT_EQ(outward_device({kSome.front()}, "").name, "lo");
  EXPECT_THROW(outward_device({}, ""), Error);
}

TEST(Devices, AnRdmaDeviceIsTakenWithItsPort) {
  const std::string known = testing::TempDir() + "paceline_rdma";
  std::filesystem::create_directories(known + "/mlx5_0/ports/1");
  EXPECT_EQ(rdma_device("mlx5_0", known), "mlx5_0:1");
  EXPECT_EQ(rdma_device("mlx5_0:1", known), "mlx5_0:1");
  EXPECT_THROW(rdma_device("mlx5_0:2", known), Error);
  EXPECT_THROW(rdma_device("mlx5_0:../..", known), Error);
  for (const char* none : {"", "eth0", "10.0.0.1", "fd00::1", "mlx5_1", "..", "../x"})
    EXPECT_EQ(rdma_device(none, known), std::nullopt) << none;
  std::filesystem::remove_all(known);
}

TEST(Devices, TheKeyOfAHostIsTheSameTwice) { EXPECT_EQ(host_key(), host_key()); }

}  // namespace
}  // namespace paceline
