#include "paceline/fabric/inbox.hpp"

#include <algorithm>

namespace paceline {

ChannelShape ChannelShape::for_ranks(int ranks) {
  if (ranks <= 4) return {.cells = 32, .payload = 16 << 10};
  if (ranks <= 8) return {.cells = 16, .payload = 16 << 10};
  if (ranks <= 32) return {.cells = 12, .payload = 8 << 10};
  return {.cells = 8, .payload = 4 << 10};
}

std::size_t Inbox::bytes(int ranks, ChannelShape shape) {
  return sizeof(InboxControl) + static_cast<std::size_t>(ranks) * shape.bytes();
}

void Inbox::publish(std::size_t slot, const BoardRecord& record) const {
  BoardSlot& target = control().board[slot];
  const std::uint64_t version = target.version.load(std::memory_order_relaxed);
  // Release on every word keeps the odd version before the first of them.
  target.version.store(version + 1, std::memory_order_relaxed);
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kBoardWords; ++i) target.words[i].store(record[i], std::memory_order_release);
  target.version.store(version + 2, std::memory_order_release);
}

std::optional<BoardRecord> Inbox::read(std::size_t slot) const {
  const BoardSlot& source = control().board[slot];
  // An owner that was stopped or killed inside publish leaves an odd version for good: give up after a few looks.
  for (int look = 0; look < 100; ++look) {
    const std::uint64_t before = source.version.load(std::memory_order_acquire);
    if (before == 0) return std::nullopt;
    if (before % 2 != 0) continue;
    BoardRecord record;
    // Acquire on every word keeps the second look at the version after the last of them.
    for (std::size_t i = 0; i < kBoardWords; ++i) record[i] = source.words[i].load(std::memory_order_acquire);
    if (source.version.load(std::memory_order_relaxed) == before) return record;
  }
  return std::nullopt;
}

}  // namespace paceline
