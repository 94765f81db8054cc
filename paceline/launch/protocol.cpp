#include "paceline/launch/protocol.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/check.hpp"
#include "paceline/core/packing.hpp"
#include "paceline/launch/proof.hpp"

namespace paceline {
namespace {

constexpr std::uint16_t kProtocol = 1;
static_assert(kMaxValueBytes + kMaxKeyBytes + 16 <= kMaxFrameBody);

bool printable(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

Versions this_build() { return {.protocol = kProtocol, .build = PACELINE_VERSION}; }

std::string describe(const Versions& versions) {
  std::string build = versions.build;
  std::replace_if(
      build.begin(), build.end(), [](char c) { return !printable(c); }, '?');
  return fmt::format("paceline {} (protocol {})", build, versions.protocol);
}

std::string encode_hello(const Versions& versions, std::string_view nonce) {
  CHECK(!versions.build.empty() && versions.build.size() <= kMaxBuildBytes, "a build version has 1 to 64 bytes");
  CHECK(nonce.size() == kNonceBytes, "a nonce has 32 bytes");
  return Packer()
      .bytes(kMagic)
      .number(versions.protocol)
      .number(static_cast<std::uint8_t>(versions.build.size()))
      .bytes(versions.build)
      .bytes(nonce)
      .take();
}

HelloStatus decode_hello(std::string_view input, Hello& hello) {
  // A stranger who speaks something else is known by the first byte and need not be waited for.
  const std::string_view begin = input.substr(0, kMagic.size());
  if (begin != kMagic.substr(0, begin.size())) return HelloStatus::foreign;
  Unpacker reader(input);
  reader.bytes(kMagic.size());
  hello.versions.protocol = reader.number<std::uint16_t>();
  const auto build_bytes = reader.number<std::uint8_t>();
  if (reader.good() && (build_bytes == 0 || build_bytes > kMaxBuildBytes)) return HelloStatus::foreign;
  hello.versions.build = reader.bytes(build_bytes);
  hello.nonce = reader.bytes(kNonceBytes);
  hello.bytes = kMagic.size() + 3 + build_bytes + kNonceBytes;
  return reader.good() ? HelloStatus::complete : HelloStatus::incomplete;
}

std::string encode(const StoreRequest& request) {
  CHECK(request.key.size() <= kMaxKeyBytes && request.value.size() <= kMaxValueBytes, "a request is within its limits");
  return Packer()
      .number(static_cast<std::uint8_t>(request.ask))
      .number(request.id)
      .text(request.key)
      .bytes(request.value)
      .take();
}

std::string encode(const Reply& reply) {
  return Packer().number(static_cast<std::uint8_t>(reply.answer)).number(reply.id).bytes(reply.value).take();
}

std::optional<StoreRequest> decode_request(std::string_view body) {
  Unpacker reader(body);
  const auto ask = reader.number<std::uint8_t>();
  StoreRequest request{static_cast<Ask>(ask), reader.number<std::uint32_t>(), std::string(reader.text()),
                       std::string(reader.rest())};
  const bool known = ask >= static_cast<std::uint8_t>(Ask::set) && ask <= static_cast<std::uint8_t>(Ask::get);
  const bool within =
      !request.key.empty() && request.key.size() <= kMaxKeyBytes && request.value.size() <= kMaxValueBytes;
  if (!reader.complete() || !known || !within) return std::nullopt;
  if (request.ask == Ask::get && !request.value.empty()) return std::nullopt;
  return request;
}

std::optional<Reply> decode_reply(std::string_view body) {
  Unpacker reader(body);
  const auto answer = reader.number<std::uint8_t>();
  Reply reply{static_cast<Answer>(answer), reader.number<std::uint32_t>(), std::string(reader.rest())};
  const bool known =
      answer >= static_cast<std::uint8_t>(Answer::done) && answer <= static_cast<std::uint8_t>(Answer::value);
  if (!reader.complete() || !known || reply.value.size() > kMaxValueBytes) return std::nullopt;
  if (reply.answer != Answer::value && !reply.value.empty()) return std::nullopt;
  return reply;
}

}  // namespace paceline
