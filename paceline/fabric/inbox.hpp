// Inbox: the shared part of one rank, in memory that all ranks of a host can reach (a memfd for processes, the heap for
// threads). It holds one channel for each peer that may send to it, the owner's board, and the few words by which the
// owner is found asleep and woken.
//
// Who writes what: a channel's cells are written by its sender, its `consumed` by the owner; the board, `asleep` and
// `closed` by the owner; `alerts` by peers. All cross-rank words are atomics; cells are handed over by their stamps.
//
// Note [Waking a sleeper]. A sender publishes (stamp, consumed or alerts) and then reads `asleep`; a sleeper sets
// `asleep` and then looks at all that could have been published. All four accesses are seq_cst, so at least one of the
// two sees the other: either the sleeper finds the work or the sender rings.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "paceline/fabric/line.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

inline constexpr std::size_t kCacheLine = 64;

// One frame of a channel: exactly a cache line, followed by the payload area. An eager payload of at most 16 bytes lies
// in the header's unused last fields, so that a small message costs one cache line between two cores.
struct alignas(kCacheLine) Cell {
  std::atomic<std::uint64_t> stamp;  // 1 + the number of the frame that lies here; anything else: not yet
  FrameHeader header;
};
static_assert(sizeof(Cell) == kCacheLine);
inline constexpr std::size_t kInlinePayload = sizeof(FrameHeader::message) + sizeof(FrameHeader::offset);

struct ChannelShape {
  std::uint32_t cells = 0;
  std::uint32_t payload = 0;  // bytes per cell, a multiple of a cache line

  // Fewer and smaller cells for more ranks, so that the inboxes of a host stay below some 200 MB in all.
  static ChannelShape for_ranks(int ranks);
  // One line more than a power of two would be, so that the headers do not fall into the same cache set.
  std::size_t stride() const { return sizeof(Cell) + payload; }
  std::size_t bytes() const { return kCacheLine + cells * stride(); }
};

struct alignas(kCacheLine) BoardSlot {
  std::atomic<std::uint64_t> version;  // odd while being written
  std::atomic<std::uint64_t> words[kBoardWords];
};

struct InboxControl {
  alignas(kCacheLine) std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> core;  // on which the owner went to sleep last, plus 1
  alignas(kCacheLine) std::atomic<std::uint64_t> alerts;
  alignas(kCacheLine) std::atomic<std::uint32_t> closed;
  alignas(kCacheLine) Line line;  // of the host: used in the inbox of its first rank
  BoardSlot board[kBoardSlots];
};

// A view of an inbox; copies refer to the same memory. All-zero memory is a valid, empty inbox.
class Inbox {
 public:
  static std::size_t bytes(int ranks, ChannelShape shape);
  Inbox() = default;
  Inbox(std::byte* memory, ChannelShape shape) : memory_(memory), shape_(shape) {}

  InboxControl& control() const { return *reinterpret_cast<InboxControl*>(memory_); }
  std::atomic<std::uint64_t>& consumed(Rank sender) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(channel(sender));
  }
  Cell& cell(Rank sender, std::uint64_t frame) const {
    return *reinterpret_cast<Cell*>(channel(sender) + kCacheLine + (frame % shape_.cells) * shape_.stride());
  }
  static std::byte* payload(Cell& cell) { return reinterpret_cast<std::byte*>(&cell) + sizeof(Cell); }
  const ChannelShape& shape() const { return shape_; }

  void publish(std::size_t slot, const BoardRecord& record) const;
  std::optional<BoardRecord> read(std::size_t slot) const;

 private:
  std::byte* channel(Rank sender) const {
    return memory_ + sizeof(InboxControl) + static_cast<std::size_t>(sender) * shape_.bytes();
  }

  std::byte* memory_ = nullptr;
  ChannelShape shape_;
};

}  // namespace paceline
