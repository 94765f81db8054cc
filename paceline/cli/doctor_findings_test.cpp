#include "paceline/cli/doctor_findings.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/cli/doctor_test_support.hpp"

namespace paceline {
namespace {

using Hosts = std::vector<std::string>;

std::vector<std::string> ids(const DoctorReport& report) {
  std::vector<std::string> all;
  for (const Finding& finding : diagnose(report)) all.push_back(finding.id);
  return all;
}

// The only finding of a report.
Finding only(const DoctorReport& report) {
  const auto findings = diagnose(report);
  EXPECT_EQ(findings.size(), 1u) << testing::PrintToString(ids(report));
  return findings.empty() ? Finding{} : findings.front();
}

void scale_links(DoctorReport& report, double factor, const auto& which) {
  for (LinkReport& link : report.links) {
    if (which(report.host_of(link.from).name, report.host_of(link.to).name)) link.gbps *= factor;
  }
}

TEST(Diagnose, NothingIsWrongWithASoundJob) {
  for (int hosts = 1; hosts <= 5; ++hosts) {
    for (int workers = 1; workers <= 3; ++workers) {
      EXPECT_EQ(ids(sound_job(hosts, workers)), Hosts{}) << hosts << " hosts of " << workers;
    }
  }
}

TEST(Diagnose, ANetworkDeviceOfATenthOfTheSpeed) {
  for (int hosts = 3; hosts <= 6; ++hosts) {
    DoctorReport report = sound_job(hosts, 1);
    scale_links(report, 0.1, [](const auto& from, const auto& to) { return from == "b" || to == "b"; });
    const Finding finding = only(report);
    EXPECT_EQ(finding.id, "slow-network");
    EXPECT_EQ(finding.severity, Severity::wrong);
    EXPECT_EQ(finding.hosts, Hosts{"b"});
    EXPECT_EQ(finding.what, "Its network carries 960 Mbit/s out and in, where the other hosts reach 9.6 Gbit/s.");
    EXPECT_NE(finding.todo.find("eth0, which says 10 Gbit/s"), std::string::npos) << finding.todo;
  }
}

TEST(Diagnose, ANetworkDeviceThatIsSlowInOneDirection) {
  DoctorReport out = sound_job(4, 1);
  scale_links(out, 0.1, [](const auto& from, const auto&) { return from == "d"; });
  EXPECT_EQ(only(out).what, "Its network carries 960 Mbit/s out, where the other hosts reach 9.6 Gbit/s.");
  DoctorReport in = sound_job(4, 1);
  scale_links(in, 0.3, [](const auto&, const auto& to) { return to == "a"; });
  EXPECT_EQ(only(in).what, "Its network carries 2.88 Gbit/s in, where the other hosts reach 9.6 Gbit/s.");
  EXPECT_EQ(only(in).severity, Severity::doubtful);
  for (HostReport& host : in.hosts) host.devices[1].kind = "virtual";
  EXPECT_EQ(ids(in), Hosts{});
}

TEST(Diagnose, ALinkThatScattersByAThirdIsNoTrouble) {
  DoctorReport report = sound_job(4, 1);
  scale_links(report, 0.66, [](const auto& from, const auto& to) { return from == "b" || to == "b"; });
  EXPECT_EQ(ids(report), Hosts{});
}

TEST(Diagnose, ASingleSlowLinkIsNobodysDevice) {
  DoctorReport report = sound_job(4, 1);
  scale_links(report, 0.1, [](const auto& from, const auto& to) { return from == "a" && to == "c"; });
  const Finding finding = only(report);
  EXPECT_EQ(finding.id, "slow-link");
  EXPECT_EQ(finding.what, "From a (rank 0) to c (rank 2) only 960 Mbit/s get through, over other links 9.6 Gbit/s.");
}

TEST(Diagnose, AHostFarAway) {
  DoctorReport report = sound_job(3, 1);
  for (LinkReport& link : report.links) {
    if (link.from == 2 || link.to == 2) link.latency_us = 5000;
  }
  EXPECT_EQ(only(report).id, "late");
  EXPECT_EQ(only(report).hosts, Hosts{"c"});
}

TEST(Diagnose, ADeviceThatDoesNotKeepItsPromise) {
  DoctorReport report = sound_job(2, 1);
  scale_links(report, 0.08, [](const auto&, const auto&) { return true; });
  const Finding finding = only(report);
  EXPECT_EQ(finding.id, "below-line-rate");
  EXPECT_EQ(finding.hosts, (Hosts{"a", "b"}));  // in the same words, so that it is said once
  for (HostReport& host : report.hosts) host.devices[1].kind = "virtual";
  EXPECT_EQ(ids(report), Hosts{});
}

TEST(Diagnose, MoreWorkersThanCores) {
  DoctorReport report = sound_job(2, 4);
  report.hosts[1].cores = report.hosts[0].cores = 3;
  const Finding finding = only(report);
  EXPECT_EQ(finding.id, "oversubscribed");
  EXPECT_EQ(finding.severity, Severity::wrong);
  EXPECT_EQ(finding.what, "4 workers on 3 cores: they take turns, and every exchange waits for the last.");
  EXPECT_EQ(finding.todo, "Start at most 3 workers there.");
}

TEST(Diagnose, BlasThreadsThatFight) {
  DoctorReport report = sound_job(1, 2);
  report.hosts[0].cores = 4;
  report.hosts[0].settings["OPENBLAS_NUM_THREADS"] = "2";
  EXPECT_EQ(ids(report), Hosts{});
  report.hosts[0].settings["OPENBLAS_NUM_THREADS"] = "4";
  const Finding finding = only(report);
  EXPECT_EQ(finding.id, "blas-threads");
  EXPECT_EQ(finding.what,
            "OPENBLAS_NUM_THREADS=4 in the environment of 2 workers on 4 cores: up to 8 threads fight for them.");
  EXPECT_EQ(finding.todo, "Unset it, and paceline gives each worker 2 threads; or start with --threads 2.");
}

TEST(Diagnose, ThreadsThatAreNotTheSameOnAllHosts) {
  DoctorReport report = sound_job(2, 2);
  for (HostReport& host : report.hosts) host.cores = 8;
  for (HostReport& host : report.hosts) host.settings = {{"OMP_NUM_THREADS", "4"}};
  EXPECT_EQ(ids(report), Hosts{});
  report.hosts[1].settings["OMP_NUM_THREADS"] = "2";
  const Finding finding = only(report);
  EXPECT_EQ(finding.id, "different-threads");
  EXPECT_EQ(finding.what, "OMP_NUM_THREADS is 2 on b; 4 on a: workers are not equally quick.");
}

TEST(Diagnose, WorkOfOtherProcesses) {
  DoctorReport report = sound_job(2, 2);
  report.hosts[1].busy_cores = 0.1;
  EXPECT_EQ(ids(report), Hosts{});
  report.hosts[1].busy_cores = 1.5;
  EXPECT_EQ(only(report).id, "load");
  EXPECT_EQ(only(report).hosts, Hosts{"b"});
  report.hosts[0].cores = report.hosts[1].cores = 4;  // room for both
  EXPECT_EQ(ids(report), Hosts{});
}

TEST(Diagnose, MemoryThatIsAlmostFull) {
  DoctorReport report = sound_job(1);
  report.hosts[0].available_bytes = report.hosts[0].memory_bytes / 20;
  EXPECT_EQ(only(report).id, "memory");
  EXPECT_EQ(only(report).severity, Severity::doubtful);
  report.hosts[0].available_bytes = report.hosts[0].memory_bytes / 100;
  EXPECT_EQ(only(report).severity, Severity::wrong);
}

TEST(Diagnose, AQuotaBelowTheCores) {
  DoctorReport report = sound_job(1, 2);
  report.hosts[0].cores = 8;
  report.hosts[0].quota = 8;
  EXPECT_EQ(ids(report), Hosts{});
  report.hosts[0].quota = 2.5;
  EXPECT_EQ(only(report).id, "quota");
  report.hosts[0].quota = 1.5;  // and less than workers
  EXPECT_EQ(ids(report), (Hosts{"oversubscribed", "quota"}));
}

TEST(Diagnose, OtherProcessors) {
  DoctorReport report = sound_job(3);
  report.hosts[2].cpu = "Old CPU";
  EXPECT_EQ(only(report).id, "different-cpus");
  EXPECT_NE(only(report).what.find("Old CPU on c; Sound CPU on a and b"), std::string::npos) << only(report).what;
}

TEST(Diagnose, WorkersWithOtherNumbersOfCores) {
  DoctorReport report = sound_job(2, 2);
  report.hosts[1].cores = 4;
  report.hosts[1].settings = {{"OMP_NUM_THREADS", "2"}, {"OPENBLAS_NUM_THREADS", "2"}};  // as the launcher sets them
  EXPECT_EQ(only(report).id, "different-cores");
}

TEST(Diagnose, AClockThatIsOff) {
  DoctorReport report = sound_job(2);
  report.hosts[1].clock_ahead = -1.5;
  report.hosts[1].clock_error = 0.7;
  EXPECT_EQ(ids(report), Hosts{});
  report.hosts[1].clock_error = 0.001;
  EXPECT_EQ(only(report).id, "clock");
  EXPECT_EQ(only(report).what, "Its clock is 1.5 s behind that of a.");
}

TEST(Diagnose, AHostWithLessMemoryBandwidth) {
  DoctorReport report = sound_job(3);
  report.hosts[2].copy_all *= 0.6;
  EXPECT_EQ(ids(report), Hosts{});
  report.hosts[2].copy_all *= 0.7;
  EXPECT_EQ(only(report).id, "memory-bandwidth");
  EXPECT_EQ(only(report).severity, Severity::doubtful);
  report.hosts[2].copy_all *= 0.4;
  EXPECT_EQ(only(report).severity, Severity::wrong);
}

TEST(Diagnose, ContainersOfOneMachine) {
  DoctorReport report = sound_job(3, 1);
  report.hosts[1].machine = report.hosts[0].machine;
  for (HostReport& host : report.hosts) host.cores = 2;
  EXPECT_EQ(only(report).id, "one-machine");
  EXPECT_EQ(only(report).severity, Severity::note);
  EXPECT_EQ(only(report).what,
            "a and b are one machine: 2 workers share its memory and 2 cores, but talk over the network.");
  for (HostReport& host : report.hosts) host.cores = 1;
  EXPECT_EQ(only(report).severity, Severity::doubtful);
}

TEST(Diagnose, HostsThatAreImitatedOverLoopback) {
  DoctorReport report = sound_job(2, 1);
  for (HostReport& host : report.hosts) {
    host.machine = "one";
    host.device = "lo";
    host.cores = 2;
  }
  EXPECT_EQ(ids(report), Hosts{});
}

TEST(Diagnose, ADeviceThatLeadsNowhere) {
  DoctorReport report = sound_job(2);
  for (HostReport& host : report.hosts) host.device = "lo";
  EXPECT_EQ(only(report).id, "wrong-device");
  EXPECT_EQ(only(report).severity, Severity::wrong);
  EXPECT_EQ(only(report).what, "Messages to other hosts go through lo (127.0.0.1), which does not leave the host.");
}

TEST(Diagnose, ABridgeToContainers) {
  DoctorReport report = sound_job(2);
  report.hosts[0].devices.push_back({"docker0", "172.17.0.1", 16, "bridge", 10000, 1500});
  EXPECT_EQ(ids(report), Hosts{});
  report.hosts[0].device = "docker0";
  const auto all = ids(report);
  EXPECT_EQ(all, (Hosts{"wrong-device", "different-networks"}));
}

TEST(Diagnose, AQuickerDeviceThatLeadsToAllHosts) {
  DoctorReport report = sound_job(2);
  for (HostReport& host : report.hosts) {
    const std::string address = host.name == "a" ? "10.1.0.1" : "10.1.0.2";
    host.devices.push_back({"ib0", address, 24, "infiniband", 100000, 1500});
  }
  const Finding finding = only(report);
  EXPECT_EQ(finding.id, "slower-device");
  EXPECT_EQ(finding.what, "Messages go through eth0 (10 Gbit/s), though ib0 (100 Gbit/s) leads to all hosts as well.");
  report.hosts[1].devices.pop_back();  // no longer to all
  EXPECT_EQ(ids(report), Hosts{});
}

TEST(Diagnose, DevicesOfDifferentNetworks) {
  DoctorReport report = sound_job(2);
  report.hosts[1].devices[1].address = "10.0.1.2";
  const Finding finding = only(report);
  EXPECT_EQ(finding.id, "different-networks");
  EXPECT_NE(finding.what.find("10.0.0.0/24 on a; 10.0.1.0/24 on b"), std::string::npos) << finding.what;
}

TEST(Diagnose, PacketsOfDifferentSize) {
  DoctorReport report = sound_job(2);
  report.hosts[1].devices[1].mtu = 9000;
  EXPECT_EQ(only(report).id, "different-mtu");
}

TEST(Diagnose, TheMostSevereComesFirst) {
  DoctorReport report = sound_job(3, 1);
  report.hosts[0].clock_ahead = 0;
  report.hosts[1].clock_ahead = 100;
  report.hosts[1].machine = report.hosts[2].machine;
  report.hosts[2].available_bytes = 0;
  EXPECT_EQ(ids(report), (Hosts{"memory", "clock", "one-machine"}));
}

}  // namespace
}  // namespace paceline
