#include <gtest/gtest.h>

#include "paceline/core/error.hpp"
#include "paceline/launch/client_session.hpp"
#include "paceline/launch/server_session.hpp"

namespace paceline {
namespace {

using State = ServerSession::State;

// A client and a server who talk without a network in between.
struct Talk {
  explicit Talk(const Terms& client_terms = {.secret = "secret"}, Terms terms = {.secret = "secret"})
      : server_terms(std::move(terms)),
        server(server_terms, std::string(kNonceBytes, 's')),
        client(client_terms, std::string(kNonceBytes, 'c'), "here:1") {}

  std::string from_client() { return std::exchange(client.output(), {}); }
  std::string from_server() { return std::exchange(server.output(), {}); }
  void run() {
    while (!client.output().empty() || !server.output().empty()) {
      server.receive(from_client());
      client.receive(from_server());
    }
  }

  Terms server_terms;
  ServerSession server;
  ClientSession client;
};

std::string sentence_of(Talk& talk) {
  try {
    talk.run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::refused);
    return error.what();
  }
  return "";
}

TEST(Session, TwoSidesWithOneSecretOpen) {
  Talk talk;
  talk.run();
  EXPECT_TRUE(talk.client.open());
  EXPECT_EQ(talk.server.state(), State::open);
}

TEST(Session, RequestsAndRepliesArriveAsTheyWereSent) {
  Talk talk;
  talk.run();
  talk.client.request({Ask::claim, 7, "key", std::string("\0value", 6)});
  talk.run();
  const auto requests = talk.server.take_requests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].ask, Ask::claim);
  EXPECT_EQ(requests[0].id, 7u);
  EXPECT_EQ(requests[0].key, "key");
  EXPECT_EQ(requests[0].value, std::string("\0value", 6));
  talk.server.reply({Answer::value, 7, "reply"});
  talk.run();
  const auto replies = talk.client.take_replies();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].value, "reply");
}

TEST(Session, BytesMayComeOneByOne) {
  Talk talk;
  const auto slowly = [](auto& session, const std::string& bytes) {
    for (const char c : bytes) session.receive({&c, 1});
  };
  for (int round = 0; round < 3; ++round) {
    slowly(talk.server, talk.from_client());
    slowly(talk.client, talk.from_server());
    if (round == 1) talk.client.request({Ask::set, 1, "k", "v"});
  }
  EXPECT_EQ(talk.server.take_requests().size(), 1u);
}

TEST(Session, AClientWithAnotherSecretIsRefusedAndTold) {
  Talk talk({.secret = "wrong"});
  EXPECT_NE(sentence_of(talk).find("does not accept this worker's secret"), std::string::npos);
  EXPECT_EQ(talk.server.state(), State::closed);
}

TEST(Session, AServerThatOnlyPretendsIsFoundOut) {
  // It accepts whatever proof the client sends, and sends the only proof that it has: none.
  Talk talk;
  talk.server.receive(talk.from_client());
  talk.client.receive(talk.from_server());
  EXPECT_THROW(talk.client.receive("\x01" + std::string(kDigestBytes, 'x')), Error);
}

TEST(Session, AProofSentBackProvesNothing) {
  Talk talk;
  talk.server.receive(talk.from_client());
  talk.client.receive(talk.from_server());
  EXPECT_THROW(talk.client.receive("\x01" + talk.from_client()), Error);
}

TEST(Session, AHelloSentBackLeadsNowhere) {
  // The stranger answers the client with the client's own hello, then with its own proof.
  Talk talk;
  talk.client.receive(talk.from_client());
  EXPECT_THROW(talk.client.receive("\x01" + talk.from_client()), Error);
}

TEST(Session, ARecordedTalkCannotBePlayedToAnotherServer) {
  Talk talk;
  const std::string hello = talk.from_client();
  talk.server.receive(hello);
  talk.client.receive(talk.from_server());
  const std::string proof = talk.from_client();
  ServerSession another(talk.server_terms, std::string(kNonceBytes, 't'));
  another.receive(hello + proof);
  EXPECT_EQ(another.state(), State::closed);
}

TEST(Session, AReplayedFrameClosesTheSession) {
  Talk talk;
  talk.run();
  talk.client.request({Ask::set, 1, "key", "value"});
  const std::string frame = talk.from_client();
  talk.server.receive(frame);
  EXPECT_EQ(talk.server.take_requests().size(), 1u);
  talk.server.receive(frame);
  EXPECT_EQ(talk.server.state(), State::closed);
  EXPECT_TRUE(talk.server.take_requests().empty());
}

TEST(Session, AnyFlippedBitOfTheHandshakeKeepsTheSessionShut) {
  Talk straight;
  const std::string hello = straight.from_client();
  straight.server.receive(hello);
  straight.client.receive(straight.from_server());
  const std::string all = hello + straight.from_client();
  for (std::size_t bit = 0; bit < 8 * all.size(); ++bit) {
    std::string damaged = all;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    ServerSession server(straight.server_terms, std::string(kNonceBytes, 's'));
    server.receive(damaged);
    EXPECT_NE(server.state(), State::open) << bit;
  }
}

TEST(Session, GarbageIsKnownByItsFirstByte) {
  Talk talk;
  talk.server.receive("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(talk.server.state(), State::closed);
  EXPECT_TRUE(talk.server.output().empty());
  EXPECT_THROW(talk.client.receive("SSH-2.0-OpenSSH_9.2"), Error);
}

TEST(Session, AStrangerCannotMakeUsWaitForMuch) {
  Talk talk;
  talk.run();
  talk.server.receive("\xff\xff\xff\xff");
  EXPECT_EQ(talk.server.state(), State::closed);
}

TEST(Session, AMalformedRequestInAGoodFrameClosesTheSession) {
  for (const std::string& body : {std::string(), std::string("\x03"), std::string("\x09\0\0\0\0\x01\0k", 8),
                                  std::string("\x03\0\0\0\0\0\0", 7), std::string("\x03\0\0\0\0\xff\xffk", 8)}) {
    Talk talk;
    const std::string hello = talk.client.output();
    talk.server.receive(talk.from_client());
    const Proofs proofs = derive_proofs("secret", hello, talk.server.output());
    Seal seal(proofs.frames, Direction::to_server);
    talk.server.receive(proofs.client + seal.close(body));
    EXPECT_EQ(talk.server.state(), State::closed);
    EXPECT_EQ(talk.server.reason(), "a request was malformed");
  }
}

TEST(Session, AnotherBuildOrProtocolIsRefusedWithASentenceThatNamesBoth) {
  for (const Versions& other : {Versions{1, "9.9"}, Versions{2, "0.1"}}) {
    Talk talk({.secret = "secret", .versions = {1, "0.1"}}, {.secret = "secret", .versions = other});
    const std::string sentence = sentence_of(talk);
    EXPECT_NE(sentence.find(describe(other)), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("this worker is paceline 0.1 (protocol 1)"), std::string::npos) << sentence;
    EXPECT_EQ(talk.server.state(), State::closed);
    EXPECT_NE(talk.server.reason().find("paceline 0.1 (protocol 1)"), std::string::npos);
  }
}

TEST(Session, AStrangersVersionCannotDirtyTheTerminal) {
  EXPECT_EQ(describe({1, "\x1b[2J"}), "paceline ?[2J (protocol 1)");
}

}  // namespace
}  // namespace paceline
