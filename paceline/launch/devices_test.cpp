#include "paceline/launch/devices.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

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

// In a network namespace of the thread's own, which ends with it.
TEST(Devices, ALinkThatHasJustComeUpIsWaitedFor) {
  bool possible = false;
  std::string refusal;
  std::jthread([&] {
    const auto shell = [](const char* command) { return std::system(command) == 0; };
    possible = unshare(CLONE_NEWNET) == 0 && shell("ip link add near type veth peer name far && ip link set near up");
    if (!possible) return;
    const NetworkDevice near{"near", "10.0.0.1", false};
    const SteadyClock clock;
    try {
      await_operation(near, Duration(0), clock);
    } catch (const Error& error) {
      refusal = error.what();
    }
    EXPECT_TRUE(shell("ip link set far up"));
    EXPECT_NO_THROW(await_operation(near, std::chrono::minutes(1), clock));
    EXPECT_NO_THROW(await_operation({"far", "10.0.0.2", false}, std::chrono::minutes(1), clock));
  }).join();
  if (!possible) GTEST_SKIP() << "network namespaces cannot be made here (that takes root and `ip`)";
  EXPECT_NE(refusal.find("the network device near (10.0.0.1) is up, but nothing answers"), std::string::npos)
      << refusal;
}

}  // namespace
}  // namespace paceline
