// `paceline train --hosts`: workers on two hosts that have nothing in common but a network.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/hosts/lan.hpp"
#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TrainHosts : public HostsTest {
 protected:
  // One worker on each of two hosts; the job is started on a third.
  Command start(const TrainRun& run, const Words& more, const std::string& ssh = lan().ssh()) const {
    Words words = {PACELINE_PROGRAM, "train",  "--json",    "--out", run.folder(), "--ssh", ssh,
                   "--hosts",        places(), "--threads", "1",     "--model",    "mlp:16"};
    if (std::find(more.begin(), more.end(), "--data") == more.end()) words.insert(words.end(), {"--data", "digits"});
    words.insert(words.end(), more.begin(), more.end());
    return lan().start(words);
  }

  Ended train(const TrainRun& run, const Words& more, const std::string& ssh = lan().ssh()) const {
    Ended ended = start(run, more, ssh).wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_EQ(ended.errors, "");
    return ended;
  }

  static std::string places() { return fmt::format("{}:1,{}:1", lan().ip(1), lan().ip(2)); }

  // A stand-in for ssh under which the second host has a name of its own, a clock that began long ago, and a file
  // system in which `script` has been run.
  std::string ssh_to_another_machine(const std::string& script) const {
    const std::string file = lan().folder() + "/reach-another";
    std::ofstream(file) << "#!/bin/sh\nif [ \"$1\" != " << lan().ip(2) << " ]; then exec " << lan().ssh()
                        << " \"$@\"; fi\nexec unshare --mount --uts --time --monotonic 100000 --fork "
                        << "--kill-child sh -c 'hostname second && " << script << " && exec \"$@\"' sh " << lan().ssh()
                        << " \"$@\"\n";
    chmod(file.c_str(), 0755);
    return file;
  }

  static void expect_nothing_left() {
    for (int host = 0; host < 3; ++host) EXPECT_TRUE(eventually([&] { return lan().processes(host).empty(); })) << host;
  }

  static pid_t worker_on(int host) {
    return process_on(host, [](const fs::path& process) {
      std::error_code ignored;
      return fs::read_symlink(process / "exe", ignored).filename() == "paceline-train";
    });
  }
  static pid_t server_on(int host) {
    return process_on(host, [](const fs::path& process) {
      std::ifstream words(process / "cmdline", std::ios::binary);
      std::string program, command;
      return std::getline(words, program, '\0') && std::getline(words, command, '\0') && command == "train-server";
    });
  }

 private:
  static pid_t process_on(int host, const std::function<bool(const fs::path&)>& is_it) {
    pid_t found = -1;
    EXPECT_TRUE(eventually([&] {
      for (const pid_t process : lan().processes(host)) {
        if (is_it(fmt::format("/proc/{}", process))) found = process;
      }
      return found > 0;
    }));
    return found;
  }
};

Words on_one_host(const Words& more) {
  Words words = {"--model", "mlp:16", "--data", "digits", "--workers", "2", "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(TrainHosts, GiveTheBitsOfOneHost) {
  const TrainRun here, there;
  const Ended one = here.train(on_one_host({"--epochs", "3"}));
  const Ended two = train(there, {"--epochs", "3"});
  EXPECT_TRUE(bytes_of(here.path("model.safetensors")) == bytes_of(there.path("model.safetensors")));
  EXPECT_EQ(results_of(one.output), results_of(two.output));
  EXPECT_EQ(json::parse(bytes_of(there.path("config.json")))["workers"], 2);
  expect_nothing_left();
}

TEST_F(TrainHosts, ToAPersonTheySayWhatOneHostSays) {
  const TrainRun run;
  const Ended ended = lan()
                          .start({PACELINE_PROGRAM, "train", "--out", run.folder(), "--ssh", lan().ssh(), "--hosts",
                                  places(), "--model", "softmax", "--data", "digits", "--epochs", "2"})
                          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
  const Words lines = lines_of(ended.output);
  ASSERT_EQ(lines.size(), 5u) << ended.output;
  EXPECT_TRUE(lines[0].starts_with("softmax (650 parameters)") &&
              contains(lines[0], "2 workers on 2 hosts (ucx over eth0)"))
      << lines[0];
  EXPECT_TRUE(lines[2].starts_with("epoch 2/2")) << lines[2];
  EXPECT_EQ(lines[4], "report: " + run.path("report.html"));
}

// The second host is called so by ssh_to_another_machine, the first as this machine.
TEST_F(TrainHosts, AreSitesByTheirNames) {
  char own[HOST_NAME_MAX + 1] = {};
  ASSERT_EQ(gethostname(own, sizeof own - 1), 0);
  const std::string ssh = ssh_to_another_machine("true");
  const TrainRun named, counted;
  const Words words = {"--epochs", "8", "--between-sites", "when=local:4"};
  Words by_name = words;
  by_name.insert(by_name.end(), {"--sites", fmt::format("second/{}", own)});
  const json last = json_lines(train(named, by_name, ssh).output).back();
  EXPECT_GT(last["test_accuracy"], 0.8);
  EXPECT_EQ(last["bytes_between_sites"], last["bytes_between_hosts"]);
  train(counted, words);
  EXPECT_TRUE(bytes_of(named.path("model.safetensors")) == bytes_of(counted.path("model.safetensors")));
  const TrainRun refused;
  const Ended ended = start(refused, {"--steps", "1", "--between-sites", "when=local:4", "--sites", "a/b"}, ssh).wait();
  EXPECT_EQ(ended.exit_code, 2);
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, "belongs to none of the sites 'a/b'")) << ended.errors;
  expect_nothing_left();
}

TEST_F(TrainHosts, ThePathOfPacelineThereIsAlsoThatOfItsWorkers) {
  const TrainRun run;
  const std::string folder = lan().folder() + "/elsewhere";
  fs::create_directories(folder);
  const std::string there = folder + "/paceline";
  fs::create_symlink(PACELINE_PROGRAM, there);
  const Words words = {"--steps", "2", "--remote-paceline", there};
  const Ended alone = start(run, words).wait();
  EXPECT_EQ(alone.exit_code, 127);
  // It is missing on both; whichever says so first is named.
  EXPECT_TRUE(contains(alone.errors, "cannot start " + there + "-train on " + lan().ip(1)) ||
              contains(alone.errors, "cannot start " + there + "-train on " + lan().ip(2)))
      << alone.errors;
  fs::create_symlink(PACELINE_PROGRAM "-train", there + "-train");
  train(run, words);
}

// The second host sees an empty folder in place of the run's.
TEST_F(TrainHosts, AfterAnInterruptTheyGoOnThoughOnlyTheFirstHasTheRunFolder) {
  const Words words = {"--epochs", "3", "--batch", "4"};
  const TrainRun straight, stopped;
  straight.train(on_one_host(words));
  fs::create_directories(stopped.folder());
  const std::string ssh = ssh_to_another_machine("mount -t tmpfs none " + stopped.folder());
  Command command = start(stopped, words, ssh);
  command.read_until("\"epoch\":1,");
  command.signal(SIGINT);
  const Ended ended = command.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  EXPECT_EQ(ended.errors, "");
  expect_nothing_left();
  const json last = json_lines(ended.output).back();
  EXPECT_EQ(last["stop_reason"], "interrupted by SIGINT");
  EXPECT_LT(last["step"], 564);
  EXPECT_TRUE(fs::exists(stopped.path(fmt::format("checkpoint/step-{:09}.ckpt", last["step"].get<int>()))));
  Words again = words;
  again.push_back("--resume");
  train(stopped, again, ssh);
  EXPECT_TRUE(bytes_of(straight.path("model.safetensors")) == bytes_of(stopped.path("model.safetensors")));
  EXPECT_EQ(results_of(bytes_of(straight.path("metrics.jsonl"))), results_of(bytes_of(stopped.path("metrics.jsonl"))));
}

TEST_F(TrainHosts, OtherSignalsEndThemInGoodOrderToo) {
  for (const int number : {SIGTERM, SIGUSR1}) {
    const TrainRun run;
    Command command = start(run, {"--epochs", "1000000"});
    command.read_until("\"epoch\":1,");
    command.signal(number);
    const Ended ended = command.wait();
    EXPECT_EQ(ended.exit_code, 128 + number);
    EXPECT_EQ(ended.errors, "");
    EXPECT_EQ(json_lines(ended.output).back()["final"], true);
    expect_nothing_left();
  }
}

TEST_F(TrainHosts, AKilledWorkerEndsTheRunWithAVerdict) {
  for (const int host : {1, 2}) {
    const TrainRun run;
    Command command = start(run, {"--epochs", "1000000"});
    command.read_until("\"epoch\":1,");
    const pid_t victim = worker_on(host);
    ASSERT_GT(victim, 0);
    const auto before = std::chrono::steady_clock::now();
    kill(victim, SIGKILL);
    const Ended ended = command.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(4));
    EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
    EXPECT_TRUE(contains(ended.errors, fmt::format("paceline: rank {} on {} (pid {}) was killed by signal 9", host - 1,
                                                   lan().ip(host), victim)))
        << ended.errors;
    EXPECT_LE(lines_of(ended.errors).size(), 2u) << ended.errors;
    expect_nothing_left();
  }
}

// ---- what cannot be done

class TrainHostsRefused : public TrainHosts {
 protected:
  void expect_refused(const TrainRun& run, const Words& words, const std::string& ssh, const std::string& says) const {
    const Ended ended = start(run, words, ssh).wait();
    EXPECT_EQ(ended.exit_code, 2);
    EXPECT_EQ(ended.output, "");
    expect_one_sentence(ended.errors);
    EXPECT_TRUE(contains(ended.errors, says)) << ended.errors;
    expect_nothing_left();
  }

  // 64 images of 4x4, all of this value.
  static std::string write_data(const std::string& name, char value) {
    const std::string folder = lan().folder() + "/" + name;
    fs::create_directories(folder);
    for (const std::string part : {"train", "t10k"}) {
      std::ofstream(folder + "/" + part + "-images-idx3-ubyte", std::ios::binary)
          << std::string("\0\0\x8\3\0\0\0\x40\0\0\0\4\0\0\0\4", 16) << std::string(64 * 16, value);
      std::ofstream(folder + "/" + part + "-labels-idx1-ubyte", std::ios::binary)
          << std::string("\0\0\x8\1\0\0\0\x40", 8) << std::string(64, '\3');
    }
    return folder;
  }
};

TEST_F(TrainHostsRefused, WordsBeforeAHostIsAsked) {
  const TrainRun run;
  const Ended ended = start(run, {"--optimizer", "lion"}, "/no/such/ssh").wait();
  EXPECT_EQ(ended.exit_code, 2);
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, "lion")) << ended.errors;
}

TEST_F(TrainHostsRefused, WhatTheFirstHostFindsIsSaidOnce) {
  const TrainRun run;
  expect_refused(run, {"--data", "mnist:/no/such/folder"}, lan().ssh(), "/no/such/folder");
  expect_refused(run, {"--batch", "2000"}, lan().ssh(), "1497");
  expect_refused(run, {"--resume"}, lan().ssh(), "no checkpoint");
  train(run, {"--steps", "1"});
  expect_refused(run, {"--steps", "1"}, lan().ssh(), run.folder() + " holds a run already");
}

TEST_F(TrainHostsRefused, DataThatAHostDoesNotHave) {
  const TrainRun run;
  const std::string data = write_data("data", 'x');
  const std::string ssh = ssh_to_another_machine("mount -t tmpfs none " + data);
  expect_refused(run, {"--data", "mnist:" + data, "--batch", "4"}, ssh, "rank 1 (host second, pid ");
  EXPECT_FALSE(fs::exists(run.path("config.json")));
}

TEST_F(TrainHostsRefused, DataThatIsNotThatOfTheOthers) {
  const TrainRun run;
  const std::string data = write_data("data", 'x');
  const std::string other = write_data("other", 'y');
  expect_refused(run, {"--data", "mnist:" + data, "--batch", "4"},
                 ssh_to_another_machine("mount --bind " + other + " " + data), "is not that of rank 0");
}

// ---- clocks

// By the second host's clock, its worker ran 100,000 seconds after the first's.
TEST_F(TrainHosts, TheTraceIsOnOneClock) {
  const TrainRun run;
  train(run, {"--epochs", "2"}, ssh_to_another_machine("true"));
  const json trace = json::parse(bytes_of(run.path("trace.json")));
  double first[2] = {1e18, -1e18};
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::size_t rank = event["pid"];
    const double start = event["ts"];
    if (std::abs(first[rank]) == 1e18 || start < first[rank]) first[rank] = start;
  }
  EXPECT_LT(std::abs(first[0] - first[1]), 1e6) << first[0] << " and " << first[1] << " us";
}

// ---- servers in processes of their own

TEST_F(TrainHosts, ServersOnAThirdHostAndOnOneOfTheWorkersGiveTheBitsOfThreadsHere) {
  const Words words = {"--epochs", "3", "--where", "server:3"};
  const TrainRun here, there;
  const Ended one = here.train(on_one_host(words));
  Words more = words;
  more.insert(more.end(), {"--servers-on", "localhost," + lan().ip(2)});
  const Ended two = train(there, more);
  EXPECT_TRUE(bytes_of(here.path("model.safetensors")) == bytes_of(there.path("model.safetensors")));
  EXPECT_EQ(results_of(one.output), results_of(two.output));
  expect_nothing_left();
}

TEST_F(TrainHosts, WorkersHereReachServersThere) {
  const TrainRun run;
  const Ended ended = lan()
                          .start({PACELINE_PROGRAM, "train", "--out", run.folder(), "--ssh", lan().ssh(), "--workers",
                                  "2", "--model", "softmax", "--data", "digits", "--epochs", "2", "--where", "server:2",
                                  "--servers-on", fmt::format("{},{}", lan().ip(1), lan().ip(2))})
                          .wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
  EXPECT_TRUE(
      contains(lines_of(ended.output).at(0), fmt::format("2 server processes on {},{}", lan().ip(1), lan().ip(2))))
      << ended.output;
  expect_nothing_left();
}

TEST_F(TrainHosts, AKilledServerOnAHostWithoutWorkersEndsTheRunAndIsNamed) {
  const TrainRun run;
  Command command = start(run, {"--epochs", "1000000", "--where", "server:1", "--servers-on", "localhost"});
  command.read_until("\"epoch\":1,");
  const pid_t victim = server_on(0);
  ASSERT_GT(victim, 0);
  const auto before = std::chrono::steady_clock::now();
  kill(victim, SIGKILL);
  const Ended ended = command.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(4));
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(
      contains(ended.errors, fmt::format("server 0, rank 2 on localhost (pid {}) was killed by signal 9", victim)))
      << ended.errors;
  EXPECT_TRUE(contains(ended.errors, fmt::format("pid {}) has died", victim))) << ended.errors;
  expect_nothing_left();
}

TEST_F(TrainHosts, AnInterruptEndsWorkersAndServersInGoodOrder) {
  const TrainRun run;
  Command command =
      start(run, {"--epochs", "1000000", "--where", "server:2", "--servers-on", "localhost," + lan().ip(1)});
  command.read_until("\"epoch\":1,");
  command.signal(SIGINT);
  const Ended ended = command.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  EXPECT_EQ(ended.errors, "");
  EXPECT_EQ(json_lines(ended.output).back()["final"], true);
  expect_nothing_left();
}

}  // namespace
}  // namespace paceline
