#include "paceline/launch/server_session.hpp"

#include "paceline/core/check.hpp"
#include "paceline/core/packing.hpp"

namespace paceline {

void ServerSession::receive(std::string_view bytes) {
  if (state_ == State::closed) return;
  input_.append(bytes);
  std::string_view left = input_;
  while (advance(left)) {
  }
  input_.erase(0, input_.size() - left.size());
  if (state_ == State::closed) input_.clear();
}

// One step of the protocol; false when more input is needed or none is wanted.
bool ServerSession::advance(std::string_view& input) {
  switch (state_) {
    case State::hello: return read_hello(input);
    case State::proof: return read_proof(input);
    case State::open: return read_frame(input);
    case State::closed: return false;
  }
  return false;
}

bool ServerSession::read_hello(std::string_view& input) {
  Hello hello;
  const HelloStatus status = decode_hello(input, hello);
  if (status == HelloStatus::foreign) return close("it does not speak paceline's protocol");
  if (status == HelloStatus::incomplete) return false;
  const std::string_view theirs = input.substr(0, hello.bytes);
  const std::string ours = encode_hello(terms_.versions, nonce_);
  output_ += ours;  // also to another version: it tells the client which one we are
  if (hello.versions != terms_.versions) return close("it is " + describe(hello.versions));
  proofs_ = derive_proofs(terms_.secret, theirs, ours);
  input.remove_prefix(hello.bytes);
  state_ = State::proof;
  return true;
}

bool ServerSession::read_proof(std::string_view& input) {
  if (input.size() < kDigestBytes) return false;
  const bool proved = same_digest(input.substr(0, kDigestBytes), proofs_.client);
  input.remove_prefix(kDigestBytes);
  if (!proved) {
    output_ +=
        Packer().number(static_cast<std::uint8_t>(ProofVerdict::refused)).bytes(Digest(kDigestBytes, '\0')).take();
    return close("it does not know the job's secret");
  }
  output_ += Packer().number(static_cast<std::uint8_t>(ProofVerdict::accepted)).bytes(proofs_.server).take();
  incoming_ = Seal(proofs_.frames, Direction::to_server);
  outgoing_ = Seal(proofs_.frames, Direction::to_client);
  state_ = State::open;
  return true;
}

bool ServerSession::read_frame(std::string_view& input) {
  const Seal::Opened frame = incoming_.open(input);
  if (frame.status == Seal::Status::incomplete) return false;
  if (frame.status == Seal::Status::forged) return close("a frame was damaged or forged");
  auto request = decode_request(frame.body);
  if (!request) return close("a request was malformed");
  requests_.push_back(std::move(*request));
  input.remove_prefix(frame.frame_bytes);
  return true;
}

void ServerSession::reply(const Reply& reply) {
  CHECK(state_ == State::open || state_ == State::closed, "only an authenticated client is replied to");
  if (state_ == State::open) output_ += outgoing_.close(encode(reply));
}

bool ServerSession::close(std::string reason) {
  state_ = State::closed;
  reason_ = std::move(reason);
  return false;
}

}  // namespace paceline
