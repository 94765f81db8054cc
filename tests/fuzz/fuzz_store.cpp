// libFuzzer target: the store and both sides of its protocol, from the first byte of a stranger to the requests of a
// client that knows the secret and is broken.
#include "tests/fuzz/fuzz_store.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/launch/client_session.hpp"
#include "paceline/launch/server_session.hpp"
#include "paceline/launch/store.hpp"

namespace paceline {
namespace {

const Terms kTerms = {.secret = "known to the target, not to the fuzzer", .versions = this_build()};
const std::string kServerNonce(kNonceBytes, 's');
const std::string kClientNonce(kNonceBytes, 'c');
// Small, so that the fuzzer reaches them.
constexpr Store::Limits kLimits = {.bytes = 600, .waiting = 8};

class Pieces {
 public:
  explicit Pieces(std::string_view input) : left_(input) {}
  std::optional<std::string_view> next() {
    if (left_.empty()) return std::nullopt;
    const std::size_t wanted = static_cast<unsigned char>(left_.front());
    left_.remove_prefix(1);
    const std::string_view piece = left_.substr(0, wanted);
    left_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view left_;
};

// A server whose client has proved itself, and that client's seals.
struct Member {
  Member() : server(kTerms, kServerNonce) {
    const std::string hello = encode_hello(kTerms.versions, kClientNonce);
    server.receive(hello);
    const Proofs proofs = derive_proofs(kTerms.secret, hello, server.output());
    server.receive(proofs.client);
    CHECK(server.state() == ServerSession::State::open, "a good handshake opens the session");
    seal = Seal(proofs.frames, Direction::to_server);
  }
  ServerSession server;
  Seal seal;
};

void fuzz_stranger(Pieces pieces) {
  ServerSession server(kTerms, kServerNonce);
  while (const auto piece = pieces.next()) {
    server.receive(*piece);
    CHECK(server.state() != ServerSession::State::open, "no stranger becomes a member");
    CHECK(server.take_requests().empty(), "no stranger's request is heard");
    CHECK(server.output().size() < 256, "a stranger gets one hello and one refusal at most");
  }
}

void fuzz_member_bytes(Pieces pieces) {
  Member member;
  while (const auto piece = pieces.next()) {
    member.server.receive(*piece);
    CHECK(member.server.take_requests().empty(), "bytes without a good seal are no request");
  }
}

void fuzz_member_bodies(Pieces pieces) {
  std::map<Store::SessionId, Member> members;
  Store store(kLimits);
  for (Store::SessionId turn = 0; const auto piece = pieces.next(); ++turn) {
    const Store::SessionId id = turn % 2;
    Member& member = members[id];
    member.server.receive(member.seal.close(*piece));
    for (StoreRequest& request : member.server.take_requests()) {
      for (const auto& delivery : store.handle(id, std::move(request)))
        members[delivery.to].server.reply(delivery.reply);
    }
    CHECK(store.bytes() <= kLimits.bytes && store.waiting() <= kLimits.waiting, "the store stays within its limits");
    if (member.server.state() == ServerSession::State::closed) {
      store.forget(id);
      members.erase(id);
    }
  }
  store.forget(0);
  store.forget(1);
  CHECK(store.waiting() == 0, "nobody waits when all have gone");
}

void fuzz_false_server(Pieces pieces) {
  ClientSession client(kTerms, kClientNonce, "fuzz:1");
  while (const auto piece = pieces.next()) {
    client.receive(*piece);
    CHECK(!client.open(), "no stranger passes for the job's store");
  }
}

void fuzz_server_bodies(Pieces pieces) {
  ClientSession client(kTerms, kClientNonce, "fuzz:1");
  const std::string hello = encode_hello(kTerms.versions, kServerNonce);
  const Proofs proofs = derive_proofs(kTerms.secret, client.output(), hello);
  client.receive(hello + '\x01' + proofs.server);
  CHECK(client.open(), "a good handshake opens the session");
  Seal seal(proofs.frames, Direction::to_client);
  while (const auto piece = pieces.next()) {
    client.receive(seal.close(*piece));
    for (const Reply& reply : client.take_replies())
      CHECK(reply.value.size() <= kMaxValueBytes, "a value has its limit");
  }
}

void fuzz(FuzzMode mode, Pieces pieces) {
  try {
    switch (mode) {
      case FuzzMode::stranger: return fuzz_stranger(pieces);
      case FuzzMode::member_bytes: return fuzz_member_bytes(pieces);
      case FuzzMode::member_bodies: return fuzz_member_bodies(pieces);
      case FuzzMode::false_server: return fuzz_false_server(pieces);
      case FuzzMode::server_bodies: return fuzz_server_bodies(pieces);
      case FuzzMode::kCount: return;
    }
  } catch (const Error&) {  // how a client refuses
  }
}

}  // namespace
}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto mode = static_cast<paceline::FuzzMode>(data[0] % static_cast<int>(paceline::FuzzMode::kCount));
  paceline::fuzz(mode, paceline::Pieces({reinterpret_cast<const char*>(data + 1), size - 1}));
  return 0;
}
