// RowIndex: 64-bit keys to slots, each key its own. Extendible hashing (Fagin et al. 1979): the leading bits of a key's
// hash choose a block of 64 KiB, the rest a cache line in it, from which slots are probed line by line. A block that is
// three quarters full splits in two, so that the table grows by moving some 3,000 slots at a time (tens of
// microseconds), whatever its size, and is never in memory twice.
//
// A slot is the key, the clock of its last use, and the row itself where that is small (up to 52 bytes), so that a key
// costs one cache miss; else the row's number in a RowStore. Slots move when their block splits, is swept or is copied
// for a snapshot: pointers to slots are valid until the next call that says so.
//
// Owned by one thread. Lists of keys are looked up with their lines prefetched several keys ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "paceline/server/row_blocks.hpp"

namespace paceline {

struct RowSlot {
  std::uint64_t key = 0;
  std::uint32_t stamp = 0;  // 0: nobody's; else the clock of the last use, plus 1
  std::uint32_t word = 0;   // the row's number, or its first four bytes: the others follow

  std::byte* row() { return reinterpret_cast<std::byte*>(&word); }
};

// Where a key was found. It may have moved since: whoever uses a position compares the key.
struct RowPosition {
  std::uint32_t block = 0;
  std::uint32_t byte = 0;  // 0, where no slot is: the key was not there
};

class RowIndex {
 public:
  // `slot_bytes` is 16, 32 or 64.
  explicit RowIndex(std::size_t slot_bytes);
  ~RowIndex();
  RowIndex(const RowIndex&) = delete;
  RowIndex& operator=(const RowIndex&) = delete;

  // The slots of the first slots.size() of `keys`, nullptr where a key is not there. The keys behind those are
  // prefetched. How many are.
  std::size_t find(std::span<const std::uint64_t> keys, std::span<RowSlot*> slots) const;
  RowSlot* find(std::uint64_t key) const;
  // The same where it is known where the keys lay. Positions that were wrong are set right.
  std::size_t find(std::span<const std::uint64_t> keys, std::span<RowPosition> positions,
                   std::span<RowSlot*> slots) const;
  RowPosition position_of(const RowSlot* slot) const;

  // Bytes that creating one more row with this key takes, beyond memory_bytes().
  std::size_t growth_for(std::uint64_t key) const;
  // A slot for a key that is not there, zeros but for the key. nullptr: its block is full, and may not split
  // (`may_grow`), or splitting would not part its keys, whose hashes are all alike. Moves slots.
  RowSlot* insert(std::uint64_t key, bool may_grow);

  // Drops the slots of one block for which `drop` says so. Moves slots.
  template <class Drop>
  std::size_t sweep(std::uint32_t number, const Drop& drop);

  // All blocks as they are now; each is to be released. From then on `own` before every change.
  std::vector<RowBlock*> hold_all();
  void release(RowBlock* block) { pool_.release(block); }
  // Where the slot is now, in a block that no snapshot holds. Moves slots if that made a copy.
  RowSlot* own(RowSlot* slot);

  // Calls visit(slot) for the used slots of a block from the given one on, until it says false. The number of the next
  // slot.
  template <class Visit>
  std::size_t visit(RowBlock* block, std::size_t from, const Visit& visit) const;

  std::size_t size() const { return size_; }
  RowBlock* block(std::uint32_t number) const { return blocks_[number]; }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(blocks_.size()); }
  std::size_t memory_bytes() const;

 private:
  static std::uint64_t hash_of(std::uint64_t key);
  RowBlock* block_of(std::uint64_t hash) const { return directory_[hash >> shift_]; }
  static std::byte* line_of(RowBlock* block, std::uint64_t hash);
  std::byte* home_of(std::uint64_t key) const;
  static std::byte* line_after(std::byte* line);
  template <std::size_t kSlots>
  struct Line;
  template <std::size_t kSlots>
  RowSlot* probe(std::uint64_t key, std::byte* line) const;
  template <std::size_t kSlots>
  std::size_t find_as(std::span<const std::uint64_t> keys, std::span<RowSlot*> slots) const;
  RowSlot* free_slot(RowBlock* block, std::uint64_t hash) const;
  RowSlot* slot_at(RowBlock* block, std::size_t index) const;
  void put(RowBlock* block, const RowSlot& slot);
  void enter(RowBlock* block);
  bool may_split(const RowBlock& block) const;
  void split(RowBlock* block);

  const std::size_t slot_bytes_;
  const std::size_t block_slots_;
  BlockPool pool_;
  std::vector<RowBlock*> directory_;  // by the leading bits of the hash
  int shift_ = 63;                    // 64 less how many bits these are
  std::vector<RowBlock*> blocks_;     // by number
  std::size_t size_ = 0;
  mutable std::vector<std::uint32_t> later_;  // within find, kept from list to list
};

inline RowSlot* RowIndex::slot_at(RowBlock* block, std::size_t index) const {
  return reinterpret_cast<RowSlot*>(block->bytes() + sizeof(RowBlock) + index * slot_bytes_);
}

template <class Visit>
std::size_t RowIndex::visit(RowBlock* block, std::size_t from, const Visit& visit) const {
  for (; from < block_slots_; ++from) {
    RowSlot* slot = slot_at(block, from);
    if (slot->stamp != 0 && !visit(*slot)) break;
  }
  return from;
}

template <class Drop>
std::size_t RowIndex::sweep(std::uint32_t number, const Drop& drop) {
  RowBlock* old = blocks_[number];
  std::size_t dropped = 0;
  visit(old, 0, [&](RowSlot& slot) { return dropped += drop(slot) ? 1 : 0, dropped == 0; });
  if (dropped == 0) return 0;
  // Made anew, because a gap in the middle would end the search for keys behind it.
  RowBlock* swept = pool_.take();
  swept->number = old->number;
  swept->depth = old->depth;
  swept->prefix = old->prefix;
  visit(old, 0, [&](RowSlot& slot) {
    if (!drop(slot)) put(swept, slot);
    return true;
  });
  dropped = old->used - swept->used;
  size_ -= dropped;
  enter(swept);
  pool_.release(old);
  return dropped;
}

}  // namespace paceline
