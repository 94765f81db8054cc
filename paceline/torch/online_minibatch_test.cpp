#include "paceline/torch/online_minibatch.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

using std::chrono::milliseconds;

// Ten inputs a second: input k arrives at (k + 1) / 10 s.
TEST(OnlineMinibatch, InputsThatComeWhileTheSumTravelsAreOnlyPredicted) {
  OnlineMinibatch stream(10, 4);
  EXPECT_EQ(stream.next(), (InputRange{0, 4}));                                      // the last at 0.4 s
  EXPECT_EQ(stream.passed(milliseconds(1), milliseconds(250)), (InputRange{4, 6}));  // at 0.5 and 0.6, until 0.65 s
  EXPECT_EQ(stream.next(), (InputRange{6, 10}));                                     // the last at 1.0 s
  EXPECT_EQ(stream.passed(milliseconds(1), milliseconds(90)), (InputRange{10, 10}));
  EXPECT_EQ(stream.next(), (InputRange{10, 14}));
  EXPECT_EQ(stream.counters().batches, 2);
  EXPECT_EQ(stream.counters().learned, 8);
  EXPECT_EQ(stream.counters().passed_travelling, 2);
  EXPECT_EQ(stream.counters().passed_computing, 0);
  EXPECT_DOUBLE_EQ(stream.counters().mu(), 1);
  EXPECT_DOUBLE_EQ(stream.counters().seconds, 1.09);
}

TEST(OnlineMinibatch, AnInputThatComesAtTheVeryEndOfTheSumIsPredictedWithTheOldModel) {
  OnlineMinibatch stream(10, 3);
  stream.next();
  EXPECT_EQ(stream.passed(milliseconds(0), milliseconds(400)), (InputRange{3, 7}));  // 0.3 s + 0.4 s
}

TEST(OnlineMinibatch, ComputingAsQuicklyAsInputsComeCostsNone) {
  OnlineMinibatch stream(100, 50);
  for (int batch = 0; batch < 20; ++batch) {
    EXPECT_EQ(stream.next(), (InputRange{50 * batch, 50 * (batch + 1)}));
    EXPECT_EQ(stream.passed(milliseconds(500), milliseconds(0)).size(), 0) << batch;
  }
  EXPECT_EQ(stream.counters().passed(), 0);
  EXPECT_DOUBLE_EQ(stream.counters().seconds, 10);
}

TEST(OnlineMinibatch, ASlowComputationIsCountedByItself) {
  OnlineMinibatch stream(10, 2);
  stream.next();                                                                       // full at 0.2 s
  EXPECT_EQ(stream.passed(milliseconds(510), milliseconds(300)), (InputRange{2, 8}));  // computed at 0.51, back at 0.81
  EXPECT_EQ(stream.counters().passed_computing, 3);
  EXPECT_EQ(stream.counters().passed_travelling, 3);
  EXPECT_EQ(stream.next(), (InputRange{8, 10}));
  stream.passed(milliseconds(150), milliseconds(0));  // full at 1.0 s only
  EXPECT_DOUBLE_EQ(stream.counters().seconds, 1.0);
}

TEST(OnlineMinibatch, NoInputIsLostOrTakenTwice) {
  OnlineMinibatch stream(997.3, 17);
  std::int64_t expected = 0;
  for (int batch = 0; batch < 1000; ++batch) {
    const InputRange learned = stream.next();
    EXPECT_EQ(learned.first, expected);
    const InputRange passed =
        stream.passed(std::chrono::microseconds(137 * (batch % 211)), std::chrono::microseconds(93 * (batch % 17)));
    EXPECT_EQ(passed.first, learned.last);
    EXPECT_GE(passed.last, passed.first);
    expected = passed.last;
  }
  EXPECT_EQ(stream.counters().learned + stream.counters().passed(), expected);
  EXPECT_EQ(expected, static_cast<std::int64_t>(stream.counters().seconds * 997.3));
}

// The regret's own terms: mu is what arrives during the latency, whatever the batch is.
TEST(OnlineMinibatch, MuIsTheRateTimesTheLatency) {
  for (const int batch : {10, 100, 1000}) {
    OnlineMinibatch stream(1000, batch);
    for (int i = 0; i < 50; ++i) {
      stream.next();
      stream.passed(milliseconds(1), milliseconds(25));
    }
    EXPECT_DOUBLE_EQ(stream.counters().mu(), 25) << batch;
  }
}

TEST(OnlineMinibatch, LossIsThatOfAllInputs) {
  OnlineMinibatch stream(10, 4);
  stream.next();
  stream.passed(milliseconds(0), milliseconds(200));
  stream.count_losses(8, 7);
  EXPECT_DOUBLE_EQ(stream.counters().mean_loss(), 15.0 / 6);
  const auto json = to_json(stream.counters(), 4);
  EXPECT_EQ(json["batch"], 4);
  EXPECT_EQ(json["mu"], 2);
  EXPECT_EQ(json["passed_loss"], 7);
  EXPECT_NE(stream.counters().text().find("33.3% only predicted"), std::string::npos) << stream.counters().text();
}

TEST(OnlineMinibatch, WhatIsNoStreamIsRefused) {
  EXPECT_THROW(OnlineMinibatch(0, 4), Error);
  EXPECT_THROW(OnlineMinibatch(-1, 4), Error);
  EXPECT_THROW(OnlineMinibatch(std::numeric_limits<double>::quiet_NaN(), 4), Error);
  EXPECT_THROW(OnlineMinibatch(std::numeric_limits<double>::infinity(), 4), Error);
  EXPECT_THROW(OnlineMinibatch(10, 0), Error);
}

}  // namespace
}  // namespace paceline
