// What every back end promises, tested on all of them with the same code. A test program instantiates `Contract` for
// its back ends: types with a static run(n, body), which runs body(endpoint) once per rank.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "paceline/core/random.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {
namespace {

template <class Backend>
class Contract : public testing::Test {};
TYPED_TEST_SUITE_P(Contract);

constexpr std::uint64_t kContext = 77;
inline Tag tag(std::uint64_t value) { return {kContext, value}; }

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> bytes_into(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  Random random(seed);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return data;
}

// All ranks have come this far. Also tests that empty messages between all pairs work.
inline void meet(Endpoint& endpoint, std::uint64_t number) {
  std::vector<Pending> pending;
  for (Rank peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == endpoint.rank()) continue;
    pending.push_back(endpoint.send(peer, tag(1'000'000 + number), {}));
    pending.push_back(endpoint.receive(peer, tag(1'000'000 + number), std::span<std::byte>{}));
  }
  for (Pending& one : pending) one.wait();
}

TYPED_TEST_P(Contract, MessagesOfOneTagArriveInTheOrderOfSending) {
  TypeParam::run(3, [](Endpoint& endpoint) {
    const Rank to = (endpoint.rank() + 1) % 3, from = (endpoint.rank() + 2) % 3;
    for (std::uint64_t i = 0; i < 500; ++i) {
      std::vector<Pending> sends;
      // Small and large ones take different ways; their order must hold all the same.
      const auto data = pattern(i % 7 == 0 ? 40'000 : i % 50, i);
      sends.push_back(endpoint.send(to, tag(5), data));
      std::vector<std::byte> got;
      Pending receive = endpoint.receive(from, tag(5), got);
      receive.wait();
      EXPECT_EQ(got, data);
      EXPECT_EQ(receive.source(), from);
      EXPECT_EQ(receive.bytes(), data.size());
      sends.back().wait();
    }
  });
}

TYPED_TEST_P(Contract, EverySizeArrivesWhole) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    const Rank peer = 1 - endpoint.rank();
    for (const std::size_t size :
         {0u, 1u, 15u, 16u, 17u, 63u, 64u, 4095u, 4096u, 16383u, 16384u, 16385u, 1'000'003u, 9'000'001u}) {
      const auto data = pattern(size, size);
      std::vector<std::byte> got(size);
      Pending receive = endpoint.receive(peer, tag(size), got);
      Pending send = endpoint.send(peer, tag(size), data);
      receive.wait();
      send.wait();
      EXPECT_TRUE(got == data) << size << " bytes";
    }
  });
}

TYPED_TEST_P(Contract, ThousandsOfMessagesMayBeOutstandingInAnyOrder) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    const Rank peer = 1 - endpoint.rank();
    constexpr std::uint64_t kMessages = 4000;
    std::vector<std::uint64_t> out(kMessages), in(kMessages);
    std::iota(out.begin(), out.end(), 1000 * endpoint.rank());
    std::vector<Pending> pending;
    for (std::uint64_t i = 0; i < kMessages; ++i) pending.push_back(endpoint.send(peer, tag(i), bytes_of(out[i])));
    for (std::uint64_t i = kMessages; i-- > 0;) pending.push_back(endpoint.receive(peer, tag(i), bytes_into(in[i])));
    for (Pending& one : pending) one.wait();
    for (std::uint64_t i = 0; i < kMessages; ++i) ASSERT_EQ(in[i], 1000 * peer + i);
  });
}

TYPED_TEST_P(Contract, LargeMessagesThatNobodyAskedForStayWithTheSender) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    constexpr int kMessages = 200;
    const auto data = pattern(300'000, 3);
    if (endpoint.rank() == 0) {
      std::vector<Pending> sends;
      for (int i = 0; i < kMessages; ++i) sends.push_back(endpoint.send(1, tag(9), data));
      for (Pending& send : sends) send.wait();
    } else {
      for (int i = 0; i < kMessages; ++i) {
        std::vector<std::byte> got(data.size());
        endpoint.receive(0, tag(9), got).wait();
        ASSERT_TRUE(got == data);
      }
    }
  });
}

TYPED_TEST_P(Contract, AServerAnswersRequestsFromAnyone) {
  TypeParam::run(4, [](Endpoint& endpoint) {
    constexpr int kRequests = 50;
    if (endpoint.rank() == 0) {
      for (int i = 0; i < 3 * kRequests; ++i) {
        std::vector<std::byte> question;
        Pending request = endpoint.receive(kAnyRank, tag(1), question);
        request.wait();
        std::reverse(question.begin(), question.end());
        endpoint.send(request.source(), tag(2), question).wait();
      }
      return;
    }
    for (int i = 0; i < kRequests; ++i) {
      auto question = pattern(static_cast<std::size_t>(i) * 997, static_cast<std::uint64_t>(endpoint.rank()));
      std::vector<std::byte> answer;
      Pending send = endpoint.send(0, tag(1), question);
      endpoint.receive(0, tag(2), answer).wait();
      send.wait();
      std::reverse(question.begin(), question.end());
      ASSERT_TRUE(answer == question);
    }
  });
}

TYPED_TEST_P(Contract, ARankSendsToItself) {
  TypeParam::run(1, [](Endpoint& endpoint) {
    const auto data = pattern(100'000, 1);
    std::vector<std::byte> before(data.size()), after(data.size());
    Pending early = endpoint.receive(0, tag(1), before);
    endpoint.send(0, tag(1), data).wait();
    early.wait();
    endpoint.send(0, tag(1), data).wait();
    endpoint.receive(kAnyRank, tag(1), after).wait();
    EXPECT_TRUE(before == data && after == data);
  });
}

TYPED_TEST_P(Contract, ADeadlinePassesAndTheOperationGoesOn) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    int value = 0;
    if (endpoint.rank() == 0) {
      Pending receive = endpoint.receive(1, tag(1), bytes_into(value));
      try {
        receive.wait_until(endpoint.clock().after(std::chrono::milliseconds(20)));
        ADD_FAILURE() << "nothing was sent";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::timeout);
      }
      EXPECT_FALSE(receive.test());
      endpoint.send(1, tag(2), {}).wait();
      receive.wait();
      EXPECT_EQ(value, 42);
    } else {
      endpoint.receive(0, tag(2), std::span<std::byte>{}).wait();
      value = 42;
      endpoint.send(0, tag(1), bytes_of(value)).wait();
    }
  });
}

TYPED_TEST_P(Contract, WhatAPeerSentBeforeItLeftIsReceivedAndThenItIsGone) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    if (endpoint.rank() == 1) {
      for (int i = 0; i < 20; ++i) endpoint.send(0, tag(1), bytes_of(i)).wait();
      endpoint.close();
      return;
    }
    int value = -1;
    Pending never = endpoint.receive(1, tag(2), bytes_into(value));
    while (!endpoint.gone(1)) {
      if (!endpoint.progress()) endpoint.idle(kNever);
    }
    ASSERT_NE(never.error(), nullptr);
    EXPECT_EQ(never.error()->code(), Code::peer_lost);
    EXPECT_EQ(never.error()->rank(), 1);
    EXPECT_NE(std::string(never.error()->what()).find("rank 1"), std::string::npos);
    EXPECT_EQ(endpoint.departures(), 1u);
    for (int i = 0; i < 20; ++i) {
      endpoint.receive(1, tag(1), bytes_into(value)).wait();
      EXPECT_EQ(value, i);
    }
    EXPECT_THROW(endpoint.receive(1, tag(1), bytes_into(value)).wait(), Error);
    EXPECT_THROW(endpoint.send(1, tag(1), bytes_of(value)).wait(), Error);
  });
}

TYPED_TEST_P(Contract, AnAbandonedReceiveLeavesItsBufferAloneAndItsSenderUnharmed) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    const auto data = pattern(500'000, 8);
    if (endpoint.rank() == 0) {
      {
        std::vector<std::byte> gone(data.size());
        Pending receive = endpoint.receive(1, tag(1), gone);
        meet(endpoint, 1);
        endpoint.progress();
      }
      std::vector<std::byte> kept(data.size());
      endpoint.receive(1, tag(2), kept).wait();
      EXPECT_TRUE(kept == data);
    } else {
      meet(endpoint, 1);
      Pending first = endpoint.send(0, tag(1), data);
      endpoint.send(0, tag(2), data).wait();
      // The abandoned message was granted and cancelled, or nobody asks for it any more: either way we can leave.
    }
    meet(endpoint, 2);
  });
}

TYPED_TEST_P(Contract, AnAbandonedSendFailsItsReceive) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    std::vector<std::byte> data(50'000'000);
    if (endpoint.rank() == 0) {
      Pending receive = endpoint.receive(1, tag(1), data);
      meet(endpoint, 1);
      try {
        receive.wait();
        ADD_FAILURE() << "the sender gave up";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::cancelled);
      }
    } else {
      meet(endpoint, 1);
      { Pending send = endpoint.send(0, tag(1), data); }
      endpoint.progress();
    }
    meet(endpoint, 2);
  });
}

TYPED_TEST_P(Contract, AMessageTooLongForItsBufferIsRefusedByName) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    for (const std::size_t size : {100u, 100'000u}) {
      std::vector<std::byte> data(size);
      if (endpoint.rank() == 0) {
        Pending receive = endpoint.receive(1, tag(1), std::span(data).first(50));
        try {
          receive.wait();
          ADD_FAILURE() << "it cannot fit";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::invalid);
        }
      } else {
        Pending send = endpoint.send(0, tag(1), data);
        while (!send.test()) endpoint.idle(kNever);
      }
      meet(endpoint, size);
    }
  });
}

TYPED_TEST_P(Contract, AMessageOfAnotherOperationFailsTheReceive) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    for (const std::size_t size : {10u, 100'000u}) {
      std::vector<std::byte> data(size);
      if (endpoint.rank() == 0) {
        Pending receive = endpoint.receive(1, tag(1), data, {.fingerprint = 1});
        try {
          receive.wait();
          ADD_FAILURE() << "the fingerprints differ";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::mismatch);
          EXPECT_EQ(error.rank(), 1);
        }
      } else {
        Pending send = endpoint.send(0, tag(1), data, 2);
        while (!send.test()) endpoint.idle(kNever);
      }
      meet(endpoint, size);
    }
  });
}

inline void add_ints(std::byte* into, const std::byte* piece, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(int)) {
    int a, b;
    std::memcpy(&a, into + i, sizeof a);
    std::memcpy(&b, piece + i, sizeof b);
    a += b;
    std::memcpy(into + i, &a, sizeof a);
  }
}

TYPED_TEST_P(Contract, AReceiveCombinesWhatArrives) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    const Rank peer = 1 - endpoint.rank();
    for (const std::size_t count : {1u, 4u, 1000u, 100'000u}) {
      std::vector<int> mine(count), sum(count);
      std::iota(mine.begin(), mine.end(), endpoint.rank());
      sum = mine;
      Pending receive = endpoint.receive(peer, tag(3), std::as_writable_bytes(std::span(sum)), {.combine = add_ints});
      Pending send = endpoint.send(peer, tag(3), std::as_bytes(std::span(mine)));
      receive.wait();
      send.wait();
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], 2 * static_cast<int>(i) + 1);
    }
  });
}

TYPED_TEST_P(Contract, ARetiredContextIsForgotten) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    const Rank peer = 1 - endpoint.rank();
    const auto data = pattern(2'000'000, 1);
    Pending large = endpoint.send(peer, {5, 1}, data);
    endpoint.send(peer, {5, 2}, std::span(data).first(10)).wait();
    std::vector<std::byte> buffer(data.size());
    Pending receive = endpoint.receive(peer, {5, 3}, buffer);
    meet(endpoint, 1);
    endpoint.retire(5);
    ASSERT_NE(receive.error(), nullptr);
    EXPECT_EQ(receive.error()->code(), Code::cancelled);
    while (!large.test()) endpoint.idle(kNever);
    ASSERT_NE(large.error(), nullptr);
    endpoint.send(peer, {6, 1}, data).done();
    meet(endpoint, 2);
  });
}

TYPED_TEST_P(Contract, BoardsAreReadWhileTheirOwnerIsElsewhereAndAlertsWake) {
  TypeParam::run(3, [](Endpoint& endpoint) {
    EXPECT_EQ(endpoint.read_board(endpoint.rank(), 3), std::nullopt);
    meet(endpoint, 1);
    BoardRecord record{};
    record.fill(static_cast<std::uint64_t>(endpoint.rank()) + 100);
    endpoint.publish(3, record, Wake::yes);
    const Rank peer = (endpoint.rank() + 1) % 3;
    while (endpoint.alerts() == 0 || !endpoint.read_board(peer, 3)) {
      if (!endpoint.progress()) endpoint.idle(kNever);
    }
    EXPECT_EQ((*endpoint.read_board(peer, 3))[kBoardWords - 1], static_cast<std::uint64_t>(peer) + 100);
    EXPECT_EQ(endpoint.read_board(peer, 4), std::nullopt);
    meet(endpoint, 2);
  });
}

TYPED_TEST_P(Contract, PeersReadAndWriteAnArenaDirectly) {
  TypeParam::run(3, [](Endpoint& endpoint) {
    Arena arena = endpoint.allocate(10'000 * sizeof(int));
    const auto numbers = arena.as<int>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(numbers.data()) % 64, 0u);
    EXPECT_EQ(std::count(numbers.begin(), numbers.end(), 0), 10'000);
    const auto here = endpoint.locate(&numbers[100], 400);
    ASSERT_TRUE(here.has_value());
    EXPECT_EQ(here->offset, 400u);
    EXPECT_FALSE(endpoint.locate(&numbers[9'999], 8).has_value());
    int outside = 0;
    EXPECT_FALSE(endpoint.locate(&outside, 4).has_value());

    numbers[5] = endpoint.rank();
    std::vector<std::uint64_t> regions(3);
    for (Rank peer = 0; peer < 3; ++peer) endpoint.send(peer, tag(1), bytes_of(here->region)).wait();
    for (Rank peer = 0; peer < 3; ++peer)
      endpoint.receive(peer, tag(1), bytes_into(regions[static_cast<std::size_t>(peer)])).wait();
    const auto& hosts = endpoint.facts().hosts;
    const auto on_one_host = [&](Rank one, Rank other) {
      return hosts[static_cast<std::size_t>(one)] == hosts[static_cast<std::size_t>(other)];
    };
    const Rank peer = (endpoint.rank() + 1) % 3, writer = (endpoint.rank() + 2) % 3;
    const auto theirs = endpoint.map(peer, regions[static_cast<std::size_t>(peer)]);
    ASSERT_EQ(theirs.has_value(), on_one_host(peer, endpoint.rank()));
    if (theirs) {
      auto* mapped = reinterpret_cast<int*>(theirs->data());
      EXPECT_EQ(mapped[5], peer);
      mapped[6] = 1000 + endpoint.rank();
    }
    meet(endpoint, 1);
    EXPECT_EQ(numbers[6], on_one_host(writer, endpoint.rank()) ? 1000 + writer : 0);
    EXPECT_FALSE(endpoint.map(peer, 999'999).has_value());
    meet(endpoint, 2);
  });
}

TYPED_TEST_P(Contract, BytesAndMessagesAreCounted) {
  TypeParam::run(2, [](Endpoint& endpoint) {
    const Rank peer = 1 - endpoint.rank();
    const auto data = pattern(100'000, 1);
    for (const std::size_t size : {0u, 10u, 100'000u}) {
      std::vector<std::byte> got(size);
      Pending receive = endpoint.receive(peer, tag(1), got);
      Pending send = endpoint.send(peer, tag(1), std::span(data).first(size));
      receive.wait();
      send.wait();
    }
    EXPECT_EQ(endpoint.counters().bytes_sent, 100'010u);
    EXPECT_EQ(endpoint.bytes_sent_to(peer), 100'010u);
    EXPECT_EQ(endpoint.bytes_sent_to(endpoint.rank()), 0u);
    EXPECT_EQ(endpoint.counters().bytes_received, 100'010u);
    EXPECT_EQ(endpoint.counters().messages_sent, 3u);
    EXPECT_EQ(endpoint.counters().messages_received, 3u);
  });
}

TYPED_TEST_P(Contract, MoreRanksThanCoresAllGetThrough) {
  TypeParam::run(9, [](Endpoint& endpoint) {
    for (std::uint64_t round = 0; round < 30; ++round) meet(endpoint, round);
  });
}

REGISTER_TYPED_TEST_SUITE_P(Contract, MessagesOfOneTagArriveInTheOrderOfSending, EverySizeArrivesWhole,
                            ThousandsOfMessagesMayBeOutstandingInAnyOrder,
                            LargeMessagesThatNobodyAskedForStayWithTheSender, AServerAnswersRequestsFromAnyone,
                            ARankSendsToItself, ADeadlinePassesAndTheOperationGoesOn,
                            WhatAPeerSentBeforeItLeftIsReceivedAndThenItIsGone,
                            AnAbandonedReceiveLeavesItsBufferAloneAndItsSenderUnharmed, AnAbandonedSendFailsItsReceive,
                            AMessageTooLongForItsBufferIsRefusedByName, AMessageOfAnotherOperationFailsTheReceive,
                            AReceiveCombinesWhatArrives, ARetiredContextIsForgotten,
                            BoardsAreReadWhileTheirOwnerIsElsewhereAndAlertsWake, PeersReadAndWriteAnArenaDirectly,
                            BytesAndMessagesAreCounted, MoreRanksThanCoresAllGetThrough);

}  // namespace
}  // namespace paceline
