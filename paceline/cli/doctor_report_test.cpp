#include "paceline/cli/doctor_report.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "paceline/cli/doctor_choices.hpp"
#include "paceline/cli/doctor_devices.hpp"
#include "paceline/cli/doctor_host.hpp"
#include "paceline/cli/doctor_memory.hpp"
#include "paceline/cli/doctor_test_support.hpp"

namespace paceline {
namespace {

TEST(DoctorReport, ComesThroughJsonAsItWas) {
  DoctorReport report = sound_job(2);
  report.hosts[1].quota = 1.5;
  report.hosts[1].settings["MKL_NUM_THREADS"] = "7";
  report.every_pair = false;
  const std::string text = Json(report).dump(1);
  const auto back = Json::parse(text).get<DoctorReport>();
  EXPECT_EQ(Json(back).dump(1), text);
  EXPECT_EQ(back.hosts[1].quota, 1.5);
  EXPECT_EQ(back.hosts[1].settings.at("MKL_NUM_THREADS"), "7");
  EXPECT_EQ(back.hosts[0].devices[1].address, "10.0.0.1");
  EXPECT_EQ(back.links.size(), report.links.size());
  EXPECT_FALSE(back.every_pair);
}

TEST(DoctorReport, ANameThatIsNoUtf8IsNoReasonToFail) {
  DoctorReport report = sound_job(1);
  report.hosts[0].cpu = "\xff CPU";
  EXPECT_NE(text_of(Json(report)).find("CPU"), std::string::npos);
}

TEST(DoctorReport, WhatIsNoneIsRefused) {
  EXPECT_THROW(Json::parse(R"({"version": "1"})").get<DoctorReport>(), nlohmann::json::exception);
}

TEST(LookAtHost, FindsWhatEveryHostHas) {
  const HostReport host = look_at_host();
  EXPECT_GE(host.cores, 1);
  EXPECT_GT(host.memory_bytes, std::uint64_t{1} << 20);
  EXPECT_LE(host.available_bytes, host.memory_bytes);
  EXPECT_FALSE(host.machine.empty());
  EXPECT_FALSE(host.cpu.empty());
}

TEST(BusyTicks, CountsWorkOfTheseCoresOnly) {
  const std::string text =
      "cpu  99 99 99 99 99 99 99 99 0 0\n"
      "cpu0 1 2 4 1000 1000 8 16 32 64 64\n"
      "cpu1 100 0 0 1000 0 0 0 0 0 0\n"
      "cpu2 5 0 0 1000 0 0 0 0 0 0\n"
      "intr 1 2 3\n";
  EXPECT_EQ(busy_ticks(text, {0}), 63);
  EXPECT_EQ(busy_ticks(text, {0, 2}), 68);
  EXPECT_EQ(busy_ticks(text, {}), 0);
}

TEST(NumberAfter, ReadsTheKernelsTables) {
  const std::string text = "MemTotal:       24000 kB\nMemAvailable:   1234 kB\n";
  EXPECT_EQ(number_after(text, "MemAvailable:"), 1234u);
  EXPECT_EQ(number_after(text, "Swap:"), 0u);
  EXPECT_EQ(number_after("limit max", "limit"), 0u);
}

TEST(ThreadsBy, TakesTheLargest) {
  EXPECT_EQ(threads_by({}), 1);
  EXPECT_EQ(threads_by({{"OMP_NUM_THREADS", "2"}, {"MKL_NUM_THREADS", "8"}}), 8);
  EXPECT_EQ(threads_by({{"OMP_NUM_THREADS", "nonsense"}}), 1);
}

TEST(Devices, NetworksAreNamedByTheirFirstAddress) {
  EXPECT_EQ(network_of("10.1.2.3", 24), "10.1.2.0/24");
  EXPECT_EQ(network_of("10.1.2.3", 20), "10.1.0.0/20");
  EXPECT_EQ(network_of("10.1.2.3", 0), "0.0.0.0/0");
  EXPECT_EQ(network_of("fd00::12:1", 64), "fd00::/64");
  EXPECT_EQ(network_of("nonsense", 24), "");
  const unsigned char mask[] = {255, 255, 240, 0};
  EXPECT_EQ(prefix_bits(mask, sizeof mask), 20);
}

TEST(Devices, TheKindIsReadFromTheKernelsFolder) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "paceline_doctor_device";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto type = [&](int number) { std::ofstream(folder / "type") << number << "\n"; };
  EXPECT_EQ(device_kind(folder), "unknown");
  type(772);
  EXPECT_EQ(device_kind(folder), "loopback");
  type(32);
  EXPECT_EQ(device_kind(folder), "infiniband");
  type(1);
  EXPECT_EQ(device_kind(folder), "ethernet");
  fs::create_directories(folder / "bridge");
  EXPECT_EQ(device_kind(folder), "bridge");
  fs::create_directories(folder / "wireless");
  EXPECT_EQ(device_kind(folder), "wireless");
  fs::remove_all(folder);
}

TEST(Devices, TheTransportSaysWhichOneIsUsed) {
  HostReport host;
  name_device(host, "ucx over eth7, shaped to 1Gbit/s", "");
  EXPECT_EQ(host.device, "eth7");
  EXPECT_EQ(host.why, "it leads to the rendezvous store");
  name_device(host, "ucx over eth7", "eth7");
  EXPECT_EQ(host.why, "it was asked for");
}

TEST(Devices, OneThatIsNotThereIsSaid) {
  HostReport host;
  name_device(host, "", "no-such-device");
  EXPECT_EQ(host.device, "");
  EXPECT_NE(host.why.find("no-such-device"), std::string::npos);
}

TEST(MemoryCopy, CopiesAlsoWhereThereIsLittleRoom) {
  MemoryCopy copy(8 << 20, 4);
  EXPECT_GT(copy.measure(std::chrono::milliseconds(2)), 0.01);
}

TEST(Choices, FollowTheSlowestLinkBetweenHosts) {
  DoctorReport report = sound_job(4, 1);
  const double before = choices(report).back().seconds;
  for (LinkReport& link : report.links) link.gbps /= link.from == 1 ? 10 : 1;
  EXPECT_NEAR(cost_of(report).net_beta, 10e-9 / 1.2, 1e-12);
  EXPECT_GT(choices(report).back().seconds, 5 * before);
}

TEST(Choices, KnowThatOneHostSharesMemory) {
  const auto all = choices(sound_job(1, 2));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2].bytes, std::size_t{64} << 20);
  EXPECT_EQ(all[2].taken, Algorithm::shm);
  EXPECT_TRUE(choices(sound_job(1, 1)).empty());
}

}  // namespace
}  // namespace paceline
