// `paceline train --between-sites`: hosts of one machine as sites.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

using nlohmann::json;

// Two sites of two workers.
Words two_sites(const Words& more) {
  return with_defaults(more, {{"--model", "mlp:16"},
                              {"--data", "digits"},
                              {"--workers", "4"},
                              {"--threads", "1"},
                              {"--batch", "32"},
                              {"--split-host", "2"},
                              {"--between-sites", "when=local:4"}});
}
// The same workers without sites.
Words no_sites(const Words& more) {
  Words words = two_sites(more);
  const auto flag = std::find(words.begin(), words.end(), "--between-sites");
  words.erase(flag, flag + 2);
  return words;
}

json last_of(const Ended& ended) { return json_lines(ended.output).back(); }

TEST(TrainSites, LearnAndTellHowMuchHasCrossed) {
  const TrainRun run;
  const Ended ended = run.train(two_sites({"--epochs", "10"}));
  EXPECT_EQ(ended.errors, "");
  const auto lines = json_lines(ended.output);
  const json& last = lines.back();
  EXPECT_GT(last["test_accuracy"], 0.85);
  EXPECT_GT(last["bytes_between_sites"], 0);
  EXPECT_LT(last["bytes_between_sites"], last["bytes_sent"]);
  EXPECT_EQ(last["bytes_between_sites"], last["bytes_between_hosts"]);  // here each host is a site
  EXPECT_GT(lines[1]["bytes_between_sites"], lines[0]["bytes_between_sites"]);
  const json config = json::parse(bytes_of(run.path("config.json")));
  EXPECT_EQ(config["between_sites"], "split=data when=local:4 where=allreduce what=dense");
  EXPECT_TRUE(contains(bytes_of(run.path("report.html")), "between sites split=data when=local:4"));
  run.expect_nothing_left();
}

TEST(TrainSites, AreNamedInTheFirstLine) {
  const TrainRun run;
  Words words = {PACELINE_PROGRAM, "train", "--out", run.folder()};
  const Words more = two_sites({"--workers", "3", "--steps", "3"});
  words.insert(words.end(), more.begin(), more.end());
  const Ended ended = run.start_marked(words).wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_TRUE(
      contains(lines_of(ended.output).at(0), "; 2 sites of 2 + 1 workers, between them split=data when=local:4"))
      << ended.output;
}

// The average of parameters after each step is the step by the average of gradients, for plain SGD; here of sites of
// two workers and one.
TEST(TrainSites, ThatMeetInEveryStepAreBspWithinRounding) {
  const TrainRun sites, all;
  const Words plain = {"--optimizer", "sgd", "--lr", "0.1", "--epochs", "3", "--workers", "3"};
  Words often = plain;
  often.insert(often.end(), {"--between-sites", "when=local:1"});
  const json found = last_of(sites.train(two_sites(often)));
  const json expected = last_of(all.train(no_sites(plain)));
  EXPECT_EQ(found["step"], expected["step"]);
  EXPECT_NEAR(found["loss"].get<double>(), expected["loss"].get<double>(), 1e-4);
  EXPECT_NEAR(found["test_loss"].get<double>(), expected["test_loss"].get<double>(), 1e-4);
}

// 47 steps of 8 x 4 workers an epoch. Between two sites a meeting is the parameters once in each direction and some
// hundred bytes beside them; what an epoch costs otherwise is the same whatever K.
TEST(TrainSites, SendTheParametersOnceInEachDirectionAndMeeting) {
  constexpr double kParameters = 4.0 * (64 * 256 + 256 + 256 * 10 + 10);
  const auto bytes = [](const std::string& between) {
    const TrainRun run;
    return last_of(run.train(two_sites(
        {"--model", "mlp:256", "--batch", "8", "--epochs", "1", "--between-sites", between})))["bytes_between_sites"]
        .get<double>();
  };
  const double often = bytes("when=local:4"), seldom = bytes("when=local:16");  // 11 + 1 and 2 + 1 meetings
  EXPECT_NEAR((often - seldom) / 9, 2 * kParameters, 0.02 * kParameters);
}

TEST(TrainSites, MayHaveSeveralHostsEach) {
  const TrainRun run;
  const json last = last_of(run.train(two_sites({"--split-host", "1", "--sites", "2", "--epochs", "6"})));
  EXPECT_GT(last["test_accuracy"], 0.8);
  EXPECT_GT(last["bytes_between_sites"], 0);
  EXPECT_LT(2 * last["bytes_between_sites"].get<double>(), last["bytes_between_hosts"].get<double>());
}

TEST(TrainSites, GoOnAsIfTheyHadNotStopped) {
  const TrainRun straight, stopped;
  const Words all = {"--epochs", "4", "--checkpoint-every", "6"};
  const json whole = last_of(straight.train(two_sites(all)));
  Words part = all;
  part.insert(part.end(), {"--steps", "18"});
  stopped.train(two_sites(part));
  Words rest = all;
  rest.emplace_back("--resume");
  const json resumed = last_of(stopped.train(two_sites(rest)));
  EXPECT_TRUE(bytes_of(straight.path("model.safetensors")) == bytes_of(stopped.path("model.safetensors")));
  EXPECT_GT(resumed["bytes_between_sites"], whole["bytes_between_sites"]);  // it has started twice
}

TEST(TrainSites, TheSameRunHasTheSameBits) {
  const TrainRun one, other;
  const Words words = {"--epochs", "3", "--slow-momentum", "0.3", "--between-sites", "when=local:5 where=ring"};
  EXPECT_EQ(results_of(one.train(two_sites(words)).output), results_of(other.train(two_sites(words)).output));
  EXPECT_TRUE(bytes_of(one.path("model.safetensors")) == bytes_of(other.path("model.safetensors")));
}

TEST(TrainSites, ASignalEndsThemInGoodOrder) {
  const TrainRun run;
  const Words words = two_sites({"--epochs", "1000000", "--checkpoint-every", "7"});
  Command command = run.start(words);
  command.read_until("\"epoch\":1,");
  command.signal(SIGTERM);
  const Ended ended = command.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_EQ(ended.errors, "");
  run.expect_nothing_left();
  const int step = last_of(ended)["step"];
  EXPECT_TRUE(std::filesystem::exists(run.path(fmt::format("checkpoint/step-{:09}.ckpt", step)))) << step;
  Words again = words;
  again.insert(again.end(), {"--resume", "--steps", std::to_string(step + 9)});
  EXPECT_EQ(last_of(run.train(again))["step"], step + 9);
}

TEST(TrainSites, AKilledWorkerEndsAllOfThem) {
  for (const int rank : {0, 3}) {
    const TrainRun run;
    Command command = run.start(two_sites({"--epochs", "1000000"}));
    command.read_until("\"epoch\":1,");
    const pid_t victim = run.worker(rank);
    ASSERT_GT(victim, 0);
    kill(victim, SIGKILL);
    const Ended ended = command.wait();
    EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
    EXPECT_TRUE(contains(ended.errors, fmt::format("pid {}", victim))) << ended.errors;
    run.expect_nothing_left();
  }
}

// ---- what cannot be done

struct NoSites {
  const char* name;
  Words words;
  const char* says;
};
void PrintTo(const NoSites& test, std::ostream* out) { *out << test.name; }

class TrainSitesRefused : public testing::TestWithParam<NoSites> {};

TEST_P(TrainSitesRefused, InOneSentence) {
  const TrainRun run;
  Words words = GetParam().words;
  words.insert(words.end(), {"--steps", "2"});
  const Ended ended = run.start(small_run(words)).wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, GetParam().says)) << ended.errors;
  EXPECT_FALSE(std::filesystem::exists(run.path("metrics.jsonl")));
  run.expect_nothing_left();
}

Words between(const std::string& plan, const Words& more = {"--split-host", "1"}) {
  Words words = {"--between-sites", plan};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

INSTANTIATE_TEST_SUITE_P(
    Words, TrainSitesRefused,
    testing::Values(
        NoSites{"OneHost", between("when=local:4", {}), "all workers are at one"},
        NoSites{"MoreSitesThanHosts", between("when=local:4", {"--split-host", "1", "--sites", "3"}),
                "3 sites would leave some without a worker: there are 2 hosts"},
        NoSites{"MoreSitesThanOneHost", between("when=local:4", {"--sites", "2"}),
                "2 sites would leave some without a worker: there is 1 host"},
        NoSites{"UnequalSites", between("when=local:4", {"--split-host", "1", "--workers", "3", "--sites", "2"}),
                "3 hosts do not make 2 sites"},
        NoSites{"OneSite", between("when=local:4", {"--split-host", "1", "--sites", "1"}), "two sites or more, not 1"},
        NoSites{"UnknownHosts", between("when=local:4", {"--split-host", "1", "--sites", "nowhere/elsewhere"}),
                "belongs to none of the sites"},
        NoSites{"SitesAlone", {"--sites", "2", "--split-host", "1"}, "--between-sites when=local:16"},
        NoSites{"NoPlan", between(""), "when=local:16"}, NoSites{"NoPair", between("local:4"), "key=word"},
        NoSites{"BspBetween", between("when=bsp"), "when=local:16"},
        NoSites{"ServersBetween", between("where=server:1 when=async"), "when=local:16"},
        NoSites{"OnlyAtTheEnd", between("when=local:end"), "use when=local:K"},
        NoSites{"SharedMemoryBetween", between("when=local:4 where=shm"), "use where=allreduce"},
        NoSites{"CodecsThatAreNotThere", between("when=local:4 what=fp16"), "fp16"},
        NoSites{"LateGradientsInside", between("when=local:4", {"--split-host", "1", "--when", "delayed:1"}),
                "when=bsp"},
        NoSites{"LocalStepsInside", between("when=local:4", {"--split-host", "1", "--when", "local:2"}), "when=bsp"},
        NoSites{"GossipInside", between("when=local:4", {"--split-host", "1", "--where", "gossip"}), "when=bsp"},
        NoSites{"AShareOfTheWorkers", between("when=local:4", {"--split-host", "1", "--participate", "50%"}),
                "step together"},
        NoSites{"Statistics", between("when=local:4", {"--split-host", "1", "--gradient-statistics"}),
                "leave --between-sites out"},
        NoSites{"AStream", between("when=local:4", {"--split-host", "1", "--online", "100"}),
                "leave --between-sites out"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace paceline
