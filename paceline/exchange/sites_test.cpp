#include "paceline/exchange/sites.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "paceline/core/error.hpp"
#include "paceline/exchange/mix_choices.hpp"

namespace paceline {
namespace {

using Numbers = std::vector<int>;
using Names = std::vector<std::string>;

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

void expect_says(const std::string& sentence, const std::string& part) {
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
}

TEST(Sites, AreHostsIfNothingIsSaid) {
  const Sites sites = parse_sites("", Numbers{0, 0, 3, 3, 1}, Names(5, "vm"));
  EXPECT_EQ(sites.of_rank, (Numbers{0, 0, 1, 1, 2}));
  EXPECT_EQ(sites.count(), 3);
  EXPECT_EQ(sites.workers_of(1), 2);
  EXPECT_EQ(sites.workers_of(2), 1);
  EXPECT_EQ(sites.first_of(1), 2);
  for (const int rank : {0, 2, 4}) EXPECT_TRUE(sites.is_first(rank));
  for (const int rank : {1, 3}) EXPECT_FALSE(sites.is_first(rank));
}

TEST(Sites, AreAsManyConsecutiveHostsEachIfTheirNumberIsSaid) {
  EXPECT_EQ(parse_sites("2", Numbers{0, 0, 1, 2, 2, 3}, Names(6, "vm")).of_rank, (Numbers{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(parse_sites("3", Numbers{0, 1, 2, 0}, Names(4, "vm")).of_rank, (Numbers{0, 1, 2, 0}));
}

TEST(Sites, AreNamedByTheirHosts) {
  const Names names = {"a", "a", "b", "c", "d"};
  EXPECT_EQ(parse_sites("a,c/b,d", Numbers{0, 0, 1, 2, 3}, names).of_rank, (Numbers{0, 0, 1, 0, 1}));
  // Numbered by their first ranks, whatever was written first.
  EXPECT_EQ(parse_sites("d/b/a,c", Numbers{0, 0, 1, 2, 3}, names).of_rank, (Numbers{0, 0, 1, 0, 2}));
}

TEST(Sites, AreToldInWords) {
  EXPECT_EQ(make_sites(Numbers{0, 0, 1, 1}).text(), "2 sites of 2 workers");
  EXPECT_EQ(make_sites(Numbers{0, 1, 2}).text(), "3 sites of 1 worker");
  EXPECT_EQ(make_sites(Numbers{0, 0, 1}).text(), "2 sites of 2 + 1 workers");
}

TEST(Sites, WhatIsNoneIsRefused) {
  const Numbers hosts = {0, 1, 2};
  const Names names = {"a", "b", "c"};
  const auto refused = [&](const std::string& words) { return refusal_of([&] { parse_sites(words, hosts, names); }); };
  expect_says(refused("2"), "3 hosts do not make 2 sites");
  expect_says(refused("4"), "4 sites would leave some without a worker: there are 3 hosts");
  expect_says(refused("1"), "two sites or more, not 1");
  expect_says(refused("-2"), "two sites or more, not -2");
  expect_says(refused("99999999999"), "two sites or more");
  expect_says(refused("a,b"), "'a,b' is one site");
  expect_says(refused("a/b"), "host c has workers and belongs to none");
  expect_says(refused("a/b,c,d"), "no worker is on host d");
  expect_says(refused("a/b,c,a"), "host a is in 'a/b,c,a' twice");
  expect_says(refused("a//b,c"), "has no host");
  expect_says(refusal_of([] { parse_sites("", Numbers{0, 0}, Names{"a", "a"}); }), "all workers are at one");
  expect_says(refusal_of([] { make_sites(Numbers{}); }), "two sites or more");
}

TEST(Sites, WordsThatMeanNothingAreFoundWithoutHosts) {
  for (const std::string good : {"", "2", "a/b", "a,b/c"})
    EXPECT_EQ(refusal_of([&] { check_sites(good); }), "") << good;
  for (const std::string bad : {"1", "0", "a", "a,b", "a/", "/", "a/a"})
    EXPECT_NE(refusal_of([&] { check_sites(bad); }), "") << bad;
}

TEST(Sites, OnlyPlansThatWorkGoTogether) {
  const auto refused = [](const std::string& inside, const std::string& between, const MixChoices& choices = {}) {
    return refusal_of([&] { check_between_sites(parse_plan(inside), parse_plan(between), choices); });
  };
  for (const std::string inside : {"", "when=bsp", "where=ring", "where=shm"}) {
    EXPECT_EQ(refused(inside, "when=local:16"), "") << inside;
    EXPECT_EQ(refused(inside, "when=local:1 where=ring what=dense", {.slow_momentum = 0.5}), "") << inside;
  }
  for (const std::string inside : {"when=delayed:1", "when=local:4", "where=gossip", "where=hogwild", "where=server:1",
                                   "where=server:2 when=ssp:3"})
    expect_says(refused(inside, "when=local:16"), "when=bsp, with where=allreduce or an algorithm by name");
  for (const std::string between :
       {"", "when=bsp", "when=delayed:2", "where=gossip", "where=hogwild", "where=server:1 when=async"})
    expect_says(refused("", between), "when=local:16, with where=allreduce or an algorithm by name");
  expect_says(refused("", "when=local:end"), "use when=local:K");
  expect_says(refused("", "when=async"), "exclude each other");
  expect_says(refused("", "when=local:4", {.participate = 0.5}), "a share that takes part");
  expect_says(refused("", "when=local:4", {.apply = MixChoices::Apply::worker}), "is asked of servers");
}

}  // namespace
}  // namespace paceline
