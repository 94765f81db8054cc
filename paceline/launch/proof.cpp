#include "paceline/launch/proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"

namespace paceline {
namespace {

const unsigned char* as_unsigned(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Digest hmac_sha256(std::string_view key, std::string_view message) {
  Digest digest(kDigestBytes, '\0');
  unsigned int length = 0;
  const auto* made =
      HMAC(EVP_sha256(), key.empty() ? "" : key.data(), static_cast<int>(key.size()), as_unsigned(message),
           message.size(), reinterpret_cast<unsigned char*>(digest.data()), &length);
  CHECK(made != nullptr && length == kDigestBytes, "OpenSSL computes HMAC-SHA256");
  return digest;
}

bool same_digest(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const ssize_t got = getrandom(bytes.data() + filled, count - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("cannot draw random bytes from the kernel", errno);
    filled += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

Proofs derive_proofs(std::string_view secret, std::string_view client_hello, std::string_view server_hello) {
  // The two hellos delimit themselves, so joining them is unambiguous; the labels differ and none is a prefix of
  // another.
  const auto derive = [&](std::string_view label) {
    return hmac_sha256(secret, Packer().text(label).bytes(client_hello).bytes(server_hello).take());
  };
  return {derive("paceline store client proof"), derive("paceline store server proof"),
          derive("paceline store frames")};
}

Digest Seal::tag(std::string_view body) const {
  return hmac_sha256(key_, Packer().number(static_cast<std::uint8_t>(direction_)).number(sequence_).bytes(body).take());
}

std::string Seal::close(std::string_view body) {
  CHECK(body.size() <= kMaxFrameBody, "a frame's body is within its limit");
  std::string frame = Packer().number(static_cast<std::uint32_t>(body.size())).bytes(body).bytes(tag(body)).take();
  ++sequence_;
  return frame;
}

Seal::Opened Seal::open(std::string_view input) {
  Unpacker reader(input);
  const auto length = reader.number<std::uint32_t>();
  if (!reader.good()) return {};
  // Before the rest has come: a length beyond the limit must not make us wait for, or store, that much.
  if (length > kMaxFrameBody) return {.status = Status::forged, .body = {}, .frame_bytes = 0};
  const std::string_view body = reader.bytes(length);
  const std::string_view claimed = reader.bytes(kDigestBytes);
  if (!reader.good()) return {};
  if (!same_digest(claimed, tag(body))) return {.status = Status::forged, .body = {}, .frame_bytes = 0};
  ++sequence_;
  return {.status = Status::opened, .body = body, .frame_bytes = sizeof length + length + kDigestBytes};
}

}  // namespace paceline
