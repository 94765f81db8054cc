#include "paceline/data/prefetch.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <latch>
#include <set>
#include <stdexcept>

namespace paceline {
namespace {

void mark(std::size_t step, Batch& batch) { batch.consumed = step; }

TEST(Prefetch, GivesEveryStepInOrderThenNothing) {
  Prefetch prefetch(mark);
  EXPECT_EQ(prefetch.next(), nullptr);
  for (const std::size_t steps : {0, 1, 2, 3, 4, 5, 100}) {
    prefetch.start(steps);
    for (std::size_t step = 0; step < steps; ++step) {
      const Batch* batch = prefetch.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->consumed, step);
    }
    EXPECT_EQ(prefetch.next(), nullptr);
    EXPECT_EQ(prefetch.next(), nullptr);
  }
}

TEST(Prefetch, RunsAheadButNeverIntoTheBatchThatIsLookedAt) {
  std::atomic<std::size_t> made = 0;
  Prefetch prefetch([&](std::size_t step, Batch& batch) {
    mark(step, batch);
    made = step + 1;
    made.notify_all();
  });
  prefetch.start(50);
  for (std::size_t step = 0; step < 50; ++step) {
    const Batch* batch = prefetch.next();
    // It makes as many as it may before we look.
    const std::size_t limit = std::min<std::size_t>(50, step + 1 + Prefetch::kAhead);
    for (std::size_t now = made; now < limit; now = made) made.wait(now);
    EXPECT_EQ(made, limit);
    EXPECT_EQ(batch->consumed, step);
  }
}

TEST(Prefetch, KeepsToAFewBuffers) {
  std::set<const float*> buffers;
  Prefetch prefetch([](std::size_t, Batch& batch) { batch.values.resize(1000); });
  for (int round = 0; round < 3; ++round) {
    prefetch.start(40);
    while (const Batch* batch = prefetch.next()) buffers.insert(batch->values.data());
  }
  EXPECT_EQ(buffers.size(), Prefetch::kAhead + 1);
}

TEST(Prefetch, AFailureIsRethrownInItsPlaceAndForgottenAtTheNextStart) {
  Prefetch prefetch([](std::size_t step, Batch& batch) {
    if (step == 2) throw std::runtime_error("step 2");
    mark(step, batch);
  });
  for (int round = 0; round < 2; ++round) {
    prefetch.start(10);
    EXPECT_EQ(prefetch.next()->consumed, 0U);
    EXPECT_EQ(prefetch.next()->consumed, 1U);
    EXPECT_THROW(prefetch.next(), std::runtime_error);
    EXPECT_THROW(prefetch.next(), std::runtime_error);
  }
}

TEST(Prefetch, TheNextBatchCanBeLookedAtOnceItIsMade) {
  Prefetch prefetch(mark);
  EXPECT_EQ(prefetch.peek(), nullptr);
  prefetch.start(2);
  const Batch* seen = nullptr;
  while ((seen = prefetch.peek()) == nullptr) std::this_thread::yield();
  EXPECT_EQ(seen->consumed, 0U);
  EXPECT_EQ(prefetch.next(), seen);
  while ((seen = prefetch.peek()) == nullptr) std::this_thread::yield();
  EXPECT_EQ(prefetch.next(), seen);
  EXPECT_EQ(seen->consumed, 1U);
  EXPECT_EQ(prefetch.peek(), nullptr);
}

TEST(Prefetch, StopWaitsUntilNothingIsBeingMade) {
  std::latch begun(1);
  std::latch may_end(1);
  std::atomic<bool> making = false;
  Prefetch prefetch([&](std::size_t, Batch&) {
    making = true;
    begun.count_down();
    may_end.wait();
    making = false;
  });
  prefetch.start(1);
  begun.wait();
  std::jthread opener([&] { may_end.count_down(); });
  prefetch.stop();
  EXPECT_FALSE(making);
  EXPECT_EQ(prefetch.next(), nullptr);
}

TEST(Prefetch, StartsAnewAtAnyMoment) {
  Prefetch prefetch(mark);
  for (std::size_t taken = 0; taken < 200; ++taken) {
    prefetch.start(1000);
    for (std::size_t step = 0; step < taken % 7; ++step) EXPECT_EQ(prefetch.next()->consumed, step);
  }
}

TEST(Prefetch, EndsAtAnyMoment) {
  for (std::size_t taken = 0; taken < 100; ++taken) {
    Prefetch prefetch(mark);
    prefetch.start(1000);
    for (std::size_t step = 0; step < taken % 7; ++step) prefetch.next();
  }
}

TEST(Prefetch, ItsThreadTakesNoSignalsAndTheOwnersMaskStaysAsItWas) {
  sigset_t inside;
  Prefetch prefetch([&](std::size_t, Batch&) { pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  prefetch.start(1);
  ASSERT_NE(prefetch.next(), nullptr);
  sigset_t outside;
  pthread_sigmask(SIG_SETMASK, nullptr, &outside);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
    EXPECT_EQ(sigismember(&inside, number), 1);
    EXPECT_EQ(sigismember(&outside, number), 0);
  }
}

}  // namespace
}  // namespace paceline
