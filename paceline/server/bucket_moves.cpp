#include "paceline/server/bucket_moves.hpp"

#include <algorithm>
#include <cstring>

#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"
#include "paceline/server/protocol.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // of a load: sums of them stay far from the end

// Of the busiest server, the bucket whose move to the idlest brings the two nearest together; nullopt: none does.
std::optional<std::size_t> bucket_to_move(const BucketOwners& owners, std::span<const std::uint64_t> loads,
                                          std::uint16_t from, std::uint64_t gap) {
  std::optional<std::size_t> best;
  const auto distance = [&](std::size_t bucket) {
    const std::uint64_t twice = 2 * loads[bucket];
    return twice > gap ? twice - gap : gap - twice;
  };
  for (std::size_t bucket = 0; bucket < owners.size(); ++bucket) {
    if (owners[bucket] != from || loads[bucket] == 0 || loads[bucket] >= gap) continue;
    if (!best || distance(bucket) < distance(*best)) best = bucket;
  }
  return best;
}

template <class T>
std::string bytes_of(std::span<const T> items) {
  return {reinterpret_cast<const char*>(items.data()), items.size_bytes()};
}

template <class T>
std::vector<T> items_of(std::string_view bytes) {
  std::vector<T> items(bytes.size() / sizeof(T));
  if (!items.empty()) std::memcpy(items.data(), bytes.data(), items.size() * sizeof(T));
  return items;
}

}  // namespace

BucketOwners first_owners(int servers) {
  BucketOwners owners(kBuckets);
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket)
    owners[bucket] = static_cast<std::uint16_t>(bucket % static_cast<std::size_t>(servers));
  return owners;
}

BucketOwners balanced_owners(BucketOwners owners, std::span<const std::uint64_t> loads, int servers) {
  std::vector<std::uint64_t> of_server(static_cast<std::size_t>(servers));
  std::uint64_t all = 0;
  for (std::size_t bucket = 0; bucket < owners.size(); ++bucket) {
    of_server[owners[bucket]] += loads[bucket];
    all += loads[bucket];
  }
  for (;;) {
    const auto busiest = std::max_element(of_server.begin(), of_server.end());
    const auto idlest = std::min_element(of_server.begin(), of_server.end());
    if (4 * of_server.size() * *busiest <= 5 * all) return owners;
    const auto from = static_cast<std::uint16_t>(busiest - of_server.begin());
    const auto bucket = bucket_to_move(owners, loads, from, *busiest - *idlest);
    if (!bucket) return owners;
    owners[*bucket] = static_cast<std::uint16_t>(idlest - of_server.begin());
    *busiest -= loads[*bucket];
    *idlest += loads[*bucket];
  }
}

std::string encode_owners(const BucketOwners& owners) { return bytes_of(std::span(owners)); }

std::optional<BucketOwners> decode_owners(std::string_view bytes, int servers) {
  if (bytes.size() != kBuckets * sizeof(std::uint16_t)) return std::nullopt;
  BucketOwners owners = items_of<std::uint16_t>(bytes);
  if (std::any_of(owners.begin(), owners.end(), [&](std::uint16_t owner) { return owner >= servers; }))
    return std::nullopt;
  return owners;
}

std::string encode_loads(std::span<const std::uint64_t> loads) { return bytes_of(loads); }

std::optional<std::vector<std::uint64_t>> decode_loads(std::string_view bytes) {
  if (bytes.size() != kBuckets * sizeof(std::uint64_t)) return std::nullopt;
  std::vector<std::uint64_t> loads = items_of<std::uint64_t>(bytes);
  for (std::uint64_t& load : loads) load = std::min(load, kMost);
  return loads;
}

std::vector<std::byte> encode(const HandedRows& handed) {
  const RowBatch& rows = handed.rows;
  Packer packer;
  packer.text(handed.table)
      .number(handed.step)
      .number(static_cast<std::uint8_t>(handed.last))
      .number(static_cast<std::uint64_t>(rows.keys.size()))
      .number(static_cast<std::uint64_t>(rows.values.size()))
      .number(static_cast<std::uint64_t>(rows.state.size()))
      .number(static_cast<std::uint64_t>(rows.steps.size()))
      .bytes(bytes_of(std::span(rows.keys)))
      .bytes(bytes_of(std::span(rows.values)))
      .bytes(bytes_of(std::span(rows.state)))
      .bytes(bytes_of(std::span(rows.steps)));
  const std::string bytes = packer.take();
  std::vector<std::byte> message;
  append(message, std::span<const char>(bytes));
  return message;
}

HandedRows decode_handed_rows(std::span<const std::byte> message) {
  Unpacker reader({reinterpret_cast<const char*>(message.data()), message.size()});
  HandedRows handed;
  handed.table = reader.text();
  handed.step = reader.number<std::int64_t>();
  handed.last = reader.number<std::uint8_t>() != 0;
  const auto keys = reader.number<std::uint64_t>();
  const auto values = reader.number<std::uint64_t>();
  const auto state = reader.number<std::uint64_t>();
  const auto steps = reader.number<std::uint64_t>();
  const std::uint64_t most = message.size();
  if (keys <= most && values <= most && state <= most && steps <= most) {
    handed.rows.keys = items_of<std::uint64_t>(reader.bytes(keys * sizeof(std::uint64_t)));
    handed.rows.values = items_of<float>(reader.bytes(values * sizeof(float)));
    handed.rows.state = items_of<float>(reader.bytes(state * sizeof(float)));
    handed.rows.steps = items_of<std::uint32_t>(reader.bytes(steps * sizeof(std::uint32_t)));
  }
  if (!reader.complete()) throw Error(Code::refused, "rows that another server handed over are malformed");
  return handed;
}

}  // namespace paceline
