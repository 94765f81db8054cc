#include "paceline/launch/store.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

Answer only_answer(const std::vector<Store::Delivery>& deliveries) {
  EXPECT_EQ(deliveries.size(), 1u);
  return deliveries.front().reply.answer;
}

TEST(Store, WhatWasSetIsGotten) {
  Store store;
  EXPECT_EQ(only_answer(store.handle(1, {Ask::set, 1, "k", "old"})), Answer::done);
  EXPECT_EQ(only_answer(store.handle(1, {Ask::set, 2, "k", "new"})), Answer::done);
  const auto got = store.handle(2, {Ask::get, 9, "k", ""});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].to, 2u);
  EXPECT_EQ(got[0].reply.id, 9u);
  EXPECT_EQ(got[0].reply.value, "new");
}

TEST(Store, AGetWaitsForItsSet) {
  Store store;
  EXPECT_TRUE(store.handle(1, {Ask::get, 5, "k", ""}).empty());
  EXPECT_TRUE(store.handle(2, {Ask::get, 6, "k", ""}).empty());
  EXPECT_EQ(only_answer(store.handle(3, {Ask::set, 7, "other", "x"})), Answer::done);
  const auto deliveries = store.handle(3, {Ask::set, 8, "k", "v"});
  ASSERT_EQ(deliveries.size(), 3u);
  EXPECT_EQ(deliveries[0].to, 3u);
  EXPECT_EQ(deliveries[1].to, 1u);
  EXPECT_EQ(deliveries[1].reply.id, 5u);
  EXPECT_EQ(deliveries[2].to, 2u);
  EXPECT_EQ(deliveries[2].reply.value, "v");
  EXPECT_EQ(store.waiting(), 0u);
}

TEST(Store, OnlyTheFirstClaimIsGranted) {
  Store store;
  EXPECT_EQ(only_answer(store.handle(1, {Ask::claim, 1, "k", "first"})), Answer::done);
  EXPECT_EQ(only_answer(store.handle(2, {Ask::claim, 1, "k", "second"})), Answer::taken);
  EXPECT_EQ(store.handle(2, {Ask::get, 2, "k", ""})[0].reply.value, "first");
}

TEST(Store, ASessionThatIsGoneGetsNothing) {
  Store store;
  store.handle(1, {Ask::get, 1, "k", ""});
  store.handle(2, {Ask::get, 1, "k", ""});
  store.forget(1);
  EXPECT_EQ(store.waiting(), 1u);
  EXPECT_EQ(store.handle(3, {Ask::set, 1, "k", "v"}).size(), 2u);
}

TEST(Store, ItsMemoryIsBounded) {
  Store store({.bytes = 10, .waiting = 2});
  EXPECT_EQ(only_answer(store.handle(1, {Ask::set, 1, "k", "123456789"})), Answer::done);
  EXPECT_EQ(only_answer(store.handle(1, {Ask::set, 2, "l", ""})), Answer::full);
  EXPECT_EQ(only_answer(store.handle(1, {Ask::set, 3, "k", "1"})), Answer::done);
  EXPECT_EQ(only_answer(store.handle(1, {Ask::set, 4, "l", ""})), Answer::done);
  EXPECT_EQ(store.bytes(), 3u);
}

TEST(Store, ThoseWhoWaitAreBounded) {
  Store store({.bytes = 10, .waiting = 2});
  EXPECT_TRUE(store.handle(1, {Ask::get, 1, "a", ""}).empty());
  EXPECT_TRUE(store.handle(1, {Ask::get, 2, "b", ""}).empty());
  EXPECT_EQ(only_answer(store.handle(1, {Ask::get, 3, "c", ""})), Answer::full);
}

}  // namespace
}  // namespace paceline
