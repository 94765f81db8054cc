// Buckets of a sparse table on servers: who has which, and which to move when one server has far more to do than
// others. Pure functions of counts.
//
// A bucket holds some thousandth of all keys, by their hash, and moves as a whole. What cannot be split is a single
// key: a server whose load is one hot key keeps it and gives away the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/server/placement.hpp"
#include "paceline/server/sparse_rows.hpp"

namespace paceline {

using BucketOwners = std::vector<std::uint16_t>;  // a server for each bucket

// Where all begin: as server_of_key has it.
BucketOwners first_owners(int servers);

// Owners under which no server has more than a quarter above the mean load, or as near to it as moves of single buckets
// from the busiest to the idlest server come, each of which lowers the greater of their two loads. The same owners if
// none is that busy.
BucketOwners balanced_owners(BucketOwners owners, std::span<const std::uint64_t> loads, int servers);

// What they say to each other; nullopt: malformed, or a server that is not there.
std::string encode_owners(const BucketOwners& owners);
std::optional<BucketOwners> decode_owners(std::string_view bytes, int servers);
std::string encode_loads(std::span<const std::uint64_t> loads);
std::optional<std::vector<std::uint64_t>> decode_loads(std::string_view bytes);

// Rows that one server hands to another, in one message of several.
struct HandedRows {
  std::string table;
  std::int64_t step = 0;  // from which on they are the other's
  bool last = false;
  RowBatch rows;
};
std::vector<std::byte> encode(const HandedRows& handed);
// Throws Error{refused}: malformed.
HandedRows decode_handed_rows(std::span<const std::byte> message);

}  // namespace paceline
