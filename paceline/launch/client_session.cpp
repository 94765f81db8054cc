#include "paceline/launch/client_session.hpp"

#include <fmt/format.h>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"

namespace paceline {

ClientSession::ClientSession(const Terms& terms, std::string_view nonce, std::string peer)
    : terms_(terms), peer_(std::move(peer)), hello_(encode_hello(terms.versions, nonce)), output_(hello_) {}

void ClientSession::receive(std::string_view bytes) {
  input_.append(bytes);
  std::string_view left = input_;
  while (advance(left)) {
  }
  input_.erase(0, input_.size() - left.size());
}

// One step of the protocol; false when more input is needed.
bool ClientSession::advance(std::string_view& input) {
  switch (state_) {
    case State::hello: return read_hello(input);
    case State::verdict: return read_verdict(input);
    case State::open: return read_frame(input);
  }
  return false;
}

bool ClientSession::read_hello(std::string_view& input) {
  Hello hello;
  const HelloStatus status = decode_hello(input, hello);
  if (status == HelloStatus::foreign) {
    throw Error(Code::refused, fmt::format("what answers at {} is not a paceline store", peer_));
  }
  if (status == HelloStatus::incomplete) return false;
  if (hello.versions != terms_.versions) {
    throw Error(Code::refused,
                fmt::format("the store at {} is {} but this worker is {}: all workers and the launcher of "
                            "a job must be of one build",
                            peer_, describe(hello.versions), describe(terms_.versions)));
  }
  proofs_ = derive_proofs(terms_.secret, hello_, input.substr(0, hello.bytes));
  output_ += proofs_.client;
  input.remove_prefix(hello.bytes);
  state_ = State::verdict;
  return true;
}

bool ClientSession::read_verdict(std::string_view& input) {
  Unpacker reader(input);
  const auto verdict = static_cast<ProofVerdict>(reader.number<std::uint8_t>());
  const std::string_view proof = reader.bytes(kDigestBytes);
  if (!reader.good()) return false;
  if (verdict == ProofVerdict::refused) {
    throw Error(Code::refused,
                fmt::format("the store at {} does not accept this worker's secret: set PACELINE_SECRET to "
                            "the same value for all workers of the job",
                            peer_));
  }
  if (verdict != ProofVerdict::accepted || !same_digest(proof, proofs_.server)) {
    throw Error(Code::refused, fmt::format("the store at {} could not prove that it knows the job's secret", peer_));
  }
  incoming_ = Seal(proofs_.frames, Direction::to_client);
  outgoing_ = Seal(proofs_.frames, Direction::to_server);
  input.remove_prefix(1 + kDigestBytes);
  state_ = State::open;
  return true;
}

bool ClientSession::read_frame(std::string_view& input) {
  const Seal::Opened frame = incoming_.open(input);
  if (frame.status == Seal::Status::incomplete) return false;
  auto reply = frame.status == Seal::Status::opened ? decode_reply(frame.body) : std::nullopt;
  if (!reply) throw Error(Code::refused, fmt::format("a frame from the store at {} was damaged or forged", peer_));
  replies_.push_back(std::move(*reply));
  input.remove_prefix(frame.frame_bytes);
  return true;
}

void ClientSession::request(const StoreRequest& request) {
  CHECK(state_ == State::open, "requests follow the handshake");
  output_ += outgoing_.close(encode(request));
}

}  // namespace paceline
