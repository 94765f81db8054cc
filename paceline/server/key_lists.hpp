// KeyLists: the latest lists of keys that one worker has sent to a server, by their hashes. Worker and server keep the
// same number of them in the order in which they were sent, so that a worker knows what its server remembers. Owned by
// one thread.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "paceline/server/protocol.hpp"
#include "paceline/server/shard_table.hpp"

namespace paceline {

inline constexpr std::size_t kRememberedLists = 32;

class KeyLists {
 public:
  // Keeps the list of a request that brings one. Throws Error{invalid} if it has another hash than the request says,
  // which tables would find rows by.
  void remember(const TableRequest& request);
  // What a request names. Nullopt: a list that is not remembered any more. The keys lie in the request or here.
  std::optional<RowsOf> rows_of(const TableRequest& request) const;

 private:
  struct List {
    KeysHash hash;
    std::vector<std::uint64_t> keys;
  };
  std::deque<List> lists_;  // the latest first
};

}  // namespace paceline
