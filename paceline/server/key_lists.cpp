#include "paceline/server/key_lists.hpp"

#include <algorithm>
#include <utility>

#include "paceline/core/error.hpp"

namespace paceline {

// The zero hash: the worker does not expect to ask for these keys again.
void KeyLists::remember(const TableRequest& request) {
  const KeysHash& hash = request.header.hash;
  if (request.header.rows != RowNames::listed || hash == KeysHash{}) return;
  if (hash_of(request.keys) != hash)
    throw Error(Code::invalid, "a list of keys has another hash than its request says");
  if (std::any_of(lists_.begin(), lists_.end(), [&](const List& list) { return list.hash == hash; })) return;
  List list;
  if (lists_.size() == kRememberedLists) {
    list = std::move(lists_.back());
    lists_.pop_back();
  }
  list.hash = hash;
  list.keys.assign(request.keys.begin(), request.keys.end());
  lists_.push_front(std::move(list));
}

std::optional<RowsOf> KeyLists::rows_of(const TableRequest& request) const {
  const RequestHeader& header = request.header;
  if (header.rows == RowNames::range) return RowsOf{.range = {header.first, header.first + header.count}};
  if (header.rows == RowNames::listed) return RowsOf{.keys = request.keys, .hash = header.hash};
  const auto found =
      std::find_if(lists_.begin(), lists_.end(), [&](const List& list) { return list.hash == header.hash; });
  if (found == lists_.end() || found->keys.size() != header.count) return std::nullopt;
  return RowsOf{.keys = found->keys, .hash = header.hash};
}

}  // namespace paceline
