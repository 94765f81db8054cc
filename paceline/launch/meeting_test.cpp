#include "paceline/launch/meeting.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "paceline/core/error.hpp"
#include "paceline/launch/store_host.hpp"

namespace paceline {
namespace {

class Meeting : public testing::Test {
 protected:
  std::unique_ptr<Endpoint> meet_as(Rank rank, int size, Duration patience) {
    const TimePoint deadline = clock_.after(patience);
    StoreClient client(host_.address(), terms_, deadline, clock_);
    return meet({.rank = rank,
                 .size = size,
                 .secret = terms_.secret,
                 .host = "here",
                 .timeout = patience,
                 .deadline = deadline},
                client);
  }

  SteadyClock clock_;
  Terms terms_{.secret = "a secret"};
  StoreHost host_{{.address = {"127.0.0.1", 0}, .terms = terms_}, clock_};
};

TEST(Card, SurvivesTheWire) {
  Card card;
  card.door = std::string("\0door", 5);
  card.identity = {"node7", 4711};
  card.salt = "salt";
  const Card read = decode_card(3, encode(card));
  EXPECT_EQ(read.door, card.door);
  EXPECT_EQ(read.identity.host, "node7");
  EXPECT_EQ(read.identity.pid, 4711);
  EXPECT_EQ(read.versions, this_build());
  EXPECT_EQ(read.salt, "salt");
}

TEST(Card, WhatIsNoCardIsRefused) {
  const std::string bytes = encode(Card());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(decode_card(0, bytes.substr(0, length)), Error) << length;
  }
  EXPECT_THROW(decode_card(0, bytes + "x"), Error);
}

TEST_F(Meeting, AllRanksMeet) {
  std::vector<std::unique_ptr<Endpoint>> endpoints(4);
  {
    std::vector<std::jthread> ranks;
    for (Rank rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([this, rank, &endpoints] {
        endpoints[static_cast<std::size_t>(rank)] = meet_as(rank, 4, std::chrono::seconds(60));
      });
    }
  }
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(endpoints[static_cast<std::size_t>(rank)]->rank(), rank);
}

TEST_F(Meeting, AtTheDeadlineTheMissingRanksAreNamed) {
  try {
    meet_as(1, 4, std::chrono::milliseconds(100));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
    EXPECT_STREQ(error.what(), "ranks 0, 2, 3 of 4 did not join within 0.1 s (PACELINE_JOIN_TIMEOUT)");
  }
}

TEST_F(Meeting, ASecondProcessWithTheSameRankIsRefused) {
  EXPECT_THROW(meet_as(1, 2, std::chrono::milliseconds(50)), Error);
  try {
    meet_as(1, 2, std::chrono::seconds(60));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::refused);
    EXPECT_EQ(std::string(error.what()).find("rank 1 of this job is already taken by process "), 0u) << error.what();
  }
}

}  // namespace
}  // namespace paceline
