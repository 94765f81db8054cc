#define XXH_INLINE_ALL
#include "paceline/server/protocol.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// What is left of a message, taken piece by piece.
class Reader {
 public:
  Reader(std::span<const std::byte> message, Code blame) : left_(message), blame_(blame) {}

  template <class Header>
  Header header() {
    Header header;
    std::memcpy(&header, take(sizeof header).data(), sizeof header);
    return header;
  }
  template <class T>
  std::span<const T> items(std::uint64_t count) {
    if (count > left_.size() / sizeof(T)) refuse();
    const auto bytes = take(count * sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), static_cast<std::size_t>(count)};
  }
  std::span<const std::byte> rest() { return take(left_.size()); }
  std::size_t left() const { return left_.size(); }
  [[noreturn]] void refuse() const { throw Error(blame_, "a message between worker and server is malformed"); }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    if (bytes > left_.size()) refuse();
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }

  std::span<const std::byte> left_;
  const Code blame_;
};

constexpr std::int64_t kLastClock = std::int64_t{1} << 60;

bool brings_values(Verb verb) { return verb == Verb::put || verb == Verb::push; }

bool has_rest(Verb verb) {
  return verb == Verb::open || verb == Verb::lost || verb == Verb::plan || verb == Verb::adopt || verb == Verb::restore;
}

bool names_rows(Verb verb) { return brings_values(verb) || verb == Verb::pull; }

void check_words(const RequestHeader& header) {
  if (header.magic != kRequestMagic) throw Error(Code::invalid, "a request does not begin as one");
  if (header.verb < Verb::open || header.verb > kLastVerb)
    throw Error(Code::invalid, fmt::format("a request has the unknown verb {}", static_cast<int>(header.verb)));
  if (header.rows > RowNames::range)
    throw Error(Code::invalid,
                fmt::format("a request names rows in the unknown way {}", static_cast<int>(header.rows)));
  if (names_rows(header.verb) != (header.rows != RowNames::none))
    throw Error(Code::invalid,
                fmt::format("a {} has rows where none belong, or none where some do", name(header.verb)));
  if (header.first + header.count < header.first)
    throw Error(Code::invalid, fmt::format("a {} names rows beyond any table", name(header.verb)));
  if (header.sequence == 0) throw Error(Code::invalid, fmt::format("a {} has no number", name(header.verb)));
  if (header.clock < 0 || header.clock > kLastClock)
    throw Error(Code::invalid,
                fmt::format("a {} is of step {}, which no worker comes to", name(header.verb), header.clock));
}

}  // namespace

std::string_view name(Verb verb) {
  switch (verb) {
    case Verb::open: return "open";
    case Verb::put: return "put";
    case Verb::push: return "push";
    case Verb::pull: return "pull";
    case Verb::clock: return "clock";
    case Verb::leave: return "leave";
    case Verb::statistics: return "statistics";
    case Verb::lost: return "lost";
    case Verb::loads: return "loads";
    case Verb::plan: return "plan";
    case Verb::adopt: return "adopt";
    case Verb::snapshot: return "snapshot";
    case Verb::piece: return "piece";
    case Verb::end_snapshot: return "end of a snapshot";
    case Verb::restore: return "restore";
  }
  return "?";
}

void append_bytes(std::vector<std::byte>& message, std::span<const std::byte> bytes) {
  message.insert(message.end(), bytes.begin(), bytes.end());
}

KeysHash hash_of(std::span<const std::uint64_t> keys) {
  const XXH128_hash_t hash = XXH3_128bits(keys.data(), keys.size_bytes());
  return {hash.low64, hash.high64};
}

RequestHeader header_of(std::span<const std::byte> message) {
  RequestHeader header;
  if (message.size() < sizeof header) return {};
  std::memcpy(&header, message.data(), sizeof header);
  return header.magic == kRequestMagic ? header : RequestHeader{};
}

TableRequest parse_request(std::span<const std::byte> message) {
  Reader reader(message, Code::invalid);
  TableRequest request;
  request.header = reader.header<RequestHeader>();
  const RequestHeader& header = request.header;
  check_words(header);
  if (has_rest(header.verb)) request.spec = reader.rest();
  if (header.rows == RowNames::listed) request.keys = reader.items<std::uint64_t>(header.count);
  if (brings_values(header.verb) && header.push_from.region == 0) {
    if (reader.left() % sizeof(float) != 0) reader.refuse();
    request.values = reader.items<float>(reader.left() / sizeof(float));
  }
  if (reader.left() != 0) reader.refuse();
  return request;
}

std::string_view sentence_of(const TableRequest& request) {
  return {reinterpret_cast<const char*>(request.spec.data()), request.spec.size()};
}

TableReply parse_reply(std::span<const std::byte> message) {
  Reader reader(message, Code::refused);
  TableReply reply;
  reply.header = reader.header<ReplyHeader>();
  if (reply.header.magic != kReplyMagic || reply.header.status > Status::worker_lost) reader.refuse();
  reply.contained = reader.items<std::int64_t>(reply.header.workers);
  reply.values = reader.items<float>(reply.header.values);
  const auto rest = reader.rest();
  reply.sentence = {reinterpret_cast<const char*>(rest.data()), rest.size()};
  return reply;
}

}  // namespace paceline
