#include "paceline/server/protocol.hpp"

#include <gtest/gtest.h>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

std::vector<std::byte> bytes_of(const RequestHeader& header, std::size_t more = 0) {
  std::vector<std::byte> bytes;
  append_header(bytes, header);
  bytes.resize(bytes.size() + more);
  return bytes;
}

RequestHeader push_of(std::uint64_t keys) {
  return {.verb = Verb::push, .rows = RowNames::listed, .sequence = 1, .count = keys};
}

TEST(Protocol, ARequestIsCutIntoItsKeysAndValues) {
  std::vector<std::byte> bytes = bytes_of(push_of(2));
  append(bytes, std::span<const std::uint64_t>(std::vector<std::uint64_t>{7, 8}));
  append(bytes, std::span<const float>(std::vector<float>{1, 2, 3}));
  const TableRequest request = parse_request(bytes);
  EXPECT_EQ(std::vector(request.keys.begin(), request.keys.end()), (std::vector<std::uint64_t>{7, 8}));
  EXPECT_EQ(std::vector(request.values.begin(), request.values.end()), (std::vector<float>{1, 2, 3}));
}

TEST(Protocol, ValuesThatAreMappedAreNotInTheMessage) {
  RequestHeader header = push_of(2);
  header.push_from.region = 5;
  EXPECT_TRUE(parse_request(bytes_of(header, 16)).values.empty());
  EXPECT_THROW(parse_request(bytes_of(header, 20)), Error);
}

TEST(Protocol, EveryLengthButTheRightOnesIsRefused) {
  for (std::size_t more = 0; more < 40; ++more) {
    const auto bytes = bytes_of(push_of(2), more);
    if (more >= 16 && more % 4 == 0) {
      EXPECT_EQ(parse_request(bytes).values.size(), (more - 16) / 4);
    } else {
      EXPECT_THROW(parse_request(bytes), Error) << more;
    }
  }
  const auto whole = bytes_of(push_of(0));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(parse_request(std::span(whole).first(size)), Error) << size;
}

TEST(Protocol, CountsThatNoMessageHoldsAreRefusedWithoutOverflow) {
  for (int bit = 2; bit < 64; ++bit) EXPECT_THROW(parse_request(bytes_of(push_of(std::uint64_t{1} << bit), 24)), Error);
}

TEST(Protocol, AHeaderIsOnlyOfWhatBeginsAsARequest) {
  RequestHeader header = push_of(0);
  header.sequence = 77;
  EXPECT_EQ(header_of(bytes_of(header)).sequence, 77u);
  const auto whole = bytes_of(header);
  EXPECT_EQ(header_of(std::span(whole).first(50)).sequence, 0u);
  header.magic ^= 1;
  EXPECT_EQ(header_of(bytes_of(header)).sequence, 0u);
}

TEST(Protocol, AReplyIsCutIntoClocksValuesAndASentence) {
  std::vector<std::byte> bytes;
  append_header(bytes, ReplyHeader{.status = Status::done, .workers = 2, .values = 1});
  append(bytes, std::span<const std::int64_t>(std::vector<std::int64_t>{3, 4}));
  append(bytes, std::span<const float>(std::vector<float>{0.5}));
  append(bytes, std::span<const char>(std::string("why")));
  const TableReply reply = parse_reply(bytes);
  EXPECT_EQ(reply.contained[1], 4);
  EXPECT_EQ(reply.values[0], 0.5F);
  EXPECT_EQ(reply.sentence, "why");
  for (std::size_t size = 0; size < bytes.size() - 3; ++size)
    EXPECT_THROW(parse_reply(std::span(bytes).first(size)), Error) << size;
}

TEST(Protocol, RandomBytesAreARequestOrAnErrorAndNothingElse) {
  Random random(11);
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = bytes_of(push_of(random.below(4)), random.below(64));
    for (std::uint64_t hits = random.below(6); hits > 0; --hits)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    try {
      const TableRequest request = parse_request(bytes);
      EXPECT_LE(request.keys.size_bytes() + request.values.size_bytes() + request.spec.size() + sizeof(RequestHeader),
                bytes.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
    }
  }
}

TEST(Protocol, TheHashOfKeysDependsOnTheirOrderAndNumber) {
  const std::vector<std::uint64_t> keys = {1, 2, 0};
  const std::vector<std::uint64_t> turned = {2, 1, 0};
  EXPECT_EQ(hash_of(keys), hash_of(std::vector(keys)));
  EXPECT_NE(hash_of(keys), hash_of(turned));
  EXPECT_NE(hash_of(keys), hash_of(std::span(keys).first(2)));
}

}  // namespace
}  // namespace paceline
