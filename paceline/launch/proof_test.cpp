#include "paceline/launch/proof.hpp"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

TEST(Proof, HmacMatchesItsTestVectors) {
  // RFC 4231, test cases 1 and 2; the last one is the well-known value for no key and no message.
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256("", "")), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Proof, EverythingThatGoesInChangesEverythingThatComesOut) {
  std::set<Digest> seen;
  for (const char* secret : {"", "s", "t"}) {
    for (const char* client : {"c", "d"}) {
      for (const char* server : {"c", "d"}) {
        const Proofs proofs = derive_proofs(secret, client, server);
        seen.insert({proofs.client, proofs.server, proofs.frames});
      }
    }
  }
  EXPECT_EQ(seen.size(), 3u * 2 * 2 * 3);
}

TEST(Proof, RandomBytesDoNotRepeat) { EXPECT_NE(random_bytes(32), random_bytes(32)); }

TEST(Seal, FramesOpenInTheOrderInWhichTheyWereClosed) {
  Seal sender("key", Direction::to_server);
  Seal receiver("key", Direction::to_server);
  std::string bytes = sender.close("one");
  bytes += sender.close("");
  const auto first = receiver.open(bytes);
  ASSERT_EQ(first.status, Seal::Status::opened);
  EXPECT_EQ(first.body, "one");
  const auto second = receiver.open(std::string_view(bytes).substr(first.frame_bytes));
  ASSERT_EQ(second.status, Seal::Status::opened);
  EXPECT_EQ(second.body, "");
  EXPECT_EQ(first.frame_bytes + second.frame_bytes, bytes.size());
}

TEST(Seal, AFrameThatIsNotWholeIsWaitedFor) {
  const std::string frame = Seal("key", Direction::to_server).close("body");
  for (std::size_t length = 0; length < frame.size(); ++length) {
    EXPECT_EQ(Seal("key", Direction::to_server).open(frame.substr(0, length)).status, Seal::Status::incomplete);
  }
}

TEST(Seal, ARepeatedFrameDoesNotOpen) {
  const std::string frame = Seal("key", Direction::to_server).close("body");
  Seal receiver("key", Direction::to_server);
  EXPECT_EQ(receiver.open(frame).status, Seal::Status::opened);
  EXPECT_EQ(receiver.open(frame).status, Seal::Status::forged);
}

TEST(Seal, AFrameSentBackDoesNotOpen) {
  const std::string frame = Seal("key", Direction::to_server).close("body");
  EXPECT_EQ(Seal("key", Direction::to_client).open(frame).status, Seal::Status::forged);
}

TEST(Seal, AFrameWithAnyBitFlippedDoesNotOpen) {
  const std::string frame = Seal("key", Direction::to_server).close("body");
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    std::string damaged = frame;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(Seal("key", Direction::to_server).open(damaged).status, Seal::Status::opened) << bit;
  }
}

TEST(Seal, ALengthBeyondTheLimitIsRefusedBeforeTheBodyComes) {
  for (const char* length : {"\x01\x00\x02\x00", "\xff\xff\xff\xff"}) {
    EXPECT_EQ(Seal("key", Direction::to_server).open({length, 4}).status, Seal::Status::forged);
  }
}

}  // namespace
}  // namespace paceline
