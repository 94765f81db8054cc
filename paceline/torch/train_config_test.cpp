#include "paceline/torch/train_config.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "paceline/data/open.hpp"
#include "paceline/torch/complaint_test_support.hpp"
#include "paceline/torch/model_spec.hpp"

namespace paceline {
namespace {

TEST(ModelSpec, KnowsItsForms) {
  EXPECT_EQ(parse_model("mlp:2048x3").sizes, (std::vector<int>{2048, 2048, 2048}));
  EXPECT_EQ(parse_model("mlp:64,8x2").sizes, (std::vector<int>{64, 8, 8}));
  EXPECT_EQ(parse_model("mlp:64,8x2").text(), "mlp:64,8,8");
  EXPECT_EQ(parse_model("wide-deep").text(), "wide-deep:16");
  for (const std::string name : {"softmax", "lenet", "cnn"}) EXPECT_EQ(parse_model(name).text(), name);
  EXPECT_FALSE(parse_model("mlp").sizes.empty());
}

TEST(ModelSpec, RefusesWhatItDoesNotKnowWithAListOfWhatItDoes) {
  for (const std::string bad :
       {"", "resnet", "mlp:", "mlp:0", "mlp:8,", "mlp:x3", "mlp:8x0", "mlp:8x1000", "cnn:3", "mlp:-4"})
    EXPECT_NE(complaint([&] { parse_model(bad); }).find("lenet, cnn"), std::string::npos) << bad;
}

TEST(TrainConfig, TargetsAndShares) {
  EXPECT_TRUE(parse_target("accuracy=0.9").reached(0.9, 5));
  EXPECT_TRUE(parse_target("accuracy=90%").reached(0.9, 5));
  EXPECT_FALSE(parse_target("accuracy=0.9").reached(0.89, 0));
  EXPECT_TRUE(parse_target("loss=0.3").reached(0, 0.3));
  EXPECT_DOUBLE_EQ(parse_share("10%"), 0.1);
  EXPECT_DOUBLE_EQ(parse_share("0.25"), 0.25);
  for (const std::string bad :
       {"", "accuracy", "accuracy=", "accuracy=x", "speed=3", "accuracy=1.2", "accuracy=0", "loss=nan"})
    EXPECT_NE(complaint([&] { parse_target(bad); }), "") << bad;
  for (const std::string bad : {"", "%", "0", "1", "100%", "x%", "-0.1", "0.1x"})
    EXPECT_NE(complaint([&] { parse_share(bad); }), "") << bad;
}

TEST(TrainConfig, AModelWhoseRowsLiveOnServersNeedsServersAndRefusesWhatCannotReachThem) {
  const auto told = [](const std::function<void(TrainConfig&)>& change) {
    TrainConfig config{.model = "wide-deep:8", .plan = parse_plan("where=server:2 when=ssp:1"), .out = "run"};
    change(config);
    return complaint([&] { check_words(config); });
  };
  EXPECT_EQ(told([](TrainConfig&) {}), "");
  EXPECT_NE(told([](TrainConfig& c) { c.plan = {}; }).find("use --where server:N"), std::string::npos);
  EXPECT_EQ(told([](TrainConfig& c) { c.resume = true; }), "");
  EXPECT_EQ(told([](TrainConfig& c) { c.checkpoint_every = 3; }), "");
  EXPECT_NE(told([](TrainConfig& c) { c.clip = 1; }).find("--clip"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.precision = "auto"; }).find("--precision"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.sharpness = 1e-3; }).find("--sharpness"), std::string::npos);
}

TEST(TrainConfig, WordsThatSuitNoDataAreKnownBeforeThereIsAny) {
  EXPECT_EQ(complaint([] { check_words({}); }), "");
  EXPECT_NE(complaint([] { check_words({.model = "resnet"}); }).find("resnet"), std::string::npos);
  EXPECT_NE(complaint([] { check_words({.optimizer = "lion"}); }).find("lion"), std::string::npos);
  EXPECT_NE(complaint([] { check_words({.schedule = "linear"}); }).find("linear"), std::string::npos);
  EXPECT_NE(complaint([] { check_words({.lr = std::nan("")}); }).find("--lr"), std::string::npos);
  EXPECT_NE(complaint([] { check_words({.resume = true}); }).find("--out"), std::string::npos);
  EXPECT_NE(complaint([] { check_words({.out = "caf\xe9"}); }).find("UTF-8"), std::string::npos);
}

TEST(TrainConfig, APlanBetweenSitesNeedsAPlanInsideThatGoesWithIt) {
  const auto told = [](const std::function<void(TrainConfig&)>& change) {
    TrainConfig config{.between_sites = "when=local:16"};
    change(config);
    return complaint([&] { check_words(config); });
  };
  EXPECT_EQ(told([](TrainConfig&) {}), "");
  EXPECT_EQ(told([](TrainConfig& c) { c.slow_momentum = 0.5; }), "");
  EXPECT_EQ(told([](TrainConfig& c) { c.sites = "a/b"; }), "");
  EXPECT_NE(told([](TrainConfig& c) {
              c.between_sites = "";
              c.sites = "2";
            }),
            "");
  EXPECT_NE(told([](TrainConfig& c) { c.sites = "1"; }).find("two sites or more"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.plan = parse_plan("when=delayed:1"); }).find("when=bsp"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.plan = parse_plan("where=server:1"); }).find("when=bsp"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.between_sites = "when=bsp"; }).find("when=local:16"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.between_sites = "when=local:4 where=shm"; }).find("where=allreduce"),
            std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.noise = "fisher-diag:8"; }).find("--between-sites"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.online = 100; }).find("--between-sites"), std::string::npos);
  EXPECT_NE(told([](TrainConfig& c) { c.participate = 0.5; }).find("step together"), std::string::npos);
}

TEST(TrainConfig, ComesBackFromJsonAsItWas) {
  TrainConfig config{
      .model = "mlp:8", .data = "digits", .workers = 3, .valid = 0.1, .until = parse_target("accuracy=0.5")};
  config.plan.set("where", "ring");
  config.between_sites = "when=local:4";
  config.sites = "a/b,c";
  EXPECT_EQ(to_json(train_config_from(to_json(config))), to_json(config));
  EXPECT_EQ(complaint([] {
              train_config_from({{"modle", "cnn"}});
            }),
            "the configuration of a training run has no 'modle'");
  EXPECT_NE(complaint([] { train_config_from({{"model", 3}}); }), "");
}

TEST(TrainConfig, ResolveFillsInWhatWasLeftOpen) {
  const DataSplit digits = open_data("digits");
  TrainConfig config{.data = "digits", .workers = 2};
  resolve(config, digits);
  EXPECT_GT(config.epochs, 10);  // a small set
  EXPECT_GT(config.lr, 0);
  TrainConfig by_steps{.data = "digits", .workers = 2, .steps = 25};
  resolve(by_steps, digits);
  EXPECT_EQ(by_steps.epochs, 3);  // 12 steps each
}

TEST(TrainConfig, OnlyTheSameRunGoesOn) {
  const TrainConfig config{.model = "mlp:8", .data = "digits"};
  nlohmann::json state = identity_of(config, 5);
  state["step"] = 7;
  EXPECT_EQ(complaint([&] { require_same_run("a.ckpt", state, identity_of(config, 5)); }), "");
  EXPECT_NE(complaint([&] { require_same_run("a.ckpt", state, identity_of(config, 6)); }), "");
  EXPECT_EQ(complaint([&] { require_same_run("a.ckpt", state, identity_of({.model = "cnn"}, 5)); }),
            "a.ckpt was trained with model \"mlp:8\", not \"cnn\"; give the same or another --out");
  state.erase("seed");
  EXPECT_NE(complaint([&] { require_same_run("a.ckpt", state, identity_of(config, 5)); }), "");
}

TEST(TrainConfig, ResolveRefusesWhatCannotBeDone) {
  const DataSplit digits = open_data("digits");
  const auto refused = [&](TrainConfig config) { return complaint([&] { resolve(config, digits); }) != ""; };
  EXPECT_TRUE(refused({.model = "resnet"}));
  EXPECT_TRUE(refused({.workers = 2000}));
  EXPECT_TRUE(refused({.batch = 100'000}));
  EXPECT_TRUE(refused({.optimizer = "lion"}));
  EXPECT_TRUE(refused({.schedule = "linear"}));
  EXPECT_TRUE(refused({.model = "lenet"}));  // digits are 8x8
  EXPECT_TRUE(refused({.lr = NAN}));
  EXPECT_TRUE(refused({.weight_decay = NAN}));
  EXPECT_TRUE(refused({.clip = INFINITY}));
  EXPECT_FALSE(refused({.valid = 0.1}));
}

}  // namespace
}  // namespace paceline
