#include "paceline/server/row_index.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

constexpr std::size_t kAhead = 32;                            // keys; what one core keeps under way in the memory
constexpr std::size_t kLines = kBlockBytes / kLineBytes - 1;  // of slots, behind the header
constexpr std::size_t kDirectoryPerBlock = 64;                // so much of the directory for each block, and no more

}  // namespace

// One multiplication whose halves are folded: every bit of the key reaches the leading bits and the low ones.
inline std::uint64_t RowIndex::hash_of(std::uint64_t key) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(key ^ 0x9e3779b97f4a7c15ULL) * 0xd1342543de82ef95ULL;
  return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
}

inline std::byte* RowIndex::line_of(RowBlock* block, std::uint64_t hash) {
  const std::uint64_t line = 1 + (((hash & 0xffffffff) * kLines) >> 32);
  return block->bytes() + line * kLineBytes;
}

// Slots fill a line from its beginning, and none is taken out of one: an empty slot ends the search, and an empty one
// that looks like key 0 lies behind the true one.
template <std::size_t kSlots>
struct RowIndex::Line {
  static constexpr std::size_t kBytes = kLineBytes / kSlots;
  std::byte* bytes;

  RowSlot* at(std::size_t i) const { return reinterpret_cast<RowSlot*>(bytes + i * kBytes); }
  bool full() const { return at(kSlots - 1)->stamp != 0; }
  // Without branches: where in its line a key lies cannot be foretold.
  RowSlot* find(std::uint64_t key) const {
    unsigned found = 0;
    for (std::size_t i = 0; i < kSlots; ++i) found |= static_cast<unsigned>(at(i)->key == key) << i;
    if (found == 0) return nullptr;
    RowSlot* slot = at(static_cast<std::size_t>(std::countr_zero(found)));
    return slot->stamp != 0 ? slot : nullptr;
  }
};

inline std::byte* RowIndex::home_of(std::uint64_t key) const {
  const std::uint64_t hash = hash_of(key);
  return line_of(block_of(hash), hash);
}

// Around at the end of the block.
inline std::byte* RowIndex::line_after(std::byte* line) {
  std::byte* next = line + kLineBytes;
  return reinterpret_cast<std::uintptr_t>(next) % kBlockBytes == 0 ? next - kBlockBytes + sizeof(RowBlock) : next;
}

template <std::size_t kSlots>
RowSlot* RowIndex::probe(std::uint64_t key, std::byte* line) const {
  for (;; line = line_after(line)) {
    RowSlot* slot = Line<kSlots>{line}.find(key);
    if (slot != nullptr || !Line<kSlots>{line}.full()) return slot;
  }
}

// The few keys that did not fit into their line are left for later, when the next line has come, too.
template <std::size_t kSlots>
std::size_t RowIndex::find_as(std::span<const std::uint64_t> keys, std::span<RowSlot*> slots) const {
  std::array<std::byte*, kAhead> homes;  // of the keys ahead, in a ring
  const std::size_t known = std::min(keys.size(), kAhead);
  for (std::size_t i = 0; i < known; ++i) __builtin_prefetch(homes[i] = home_of(keys[i]), 1);
  std::size_t missing = 0;
  later_.clear();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::byte* home = homes[i % kAhead];
    if (i + kAhead < keys.size()) __builtin_prefetch(homes[i % kAhead] = home_of(keys[i + kAhead]), 1);
    slots[i] = Line<kSlots>{home}.find(keys[i]);
    if (slots[i] != nullptr) [[likely]]
      continue;
    ++missing;
    if (!Line<kSlots>{home}.full()) continue;
    __builtin_prefetch(line_after(home), 1);
    later_.push_back(static_cast<std::uint32_t>(i));
  }
  for (const std::uint32_t i : later_) {
    slots[i] = probe<kSlots>(keys[i], line_after(home_of(keys[i])));
    missing -= slots[i] != nullptr ? 1 : 0;
  }
  return slots.size() - missing;
}

RowIndex::RowIndex(std::size_t slot_bytes) : slot_bytes_(slot_bytes), block_slots_(kLines * kLineBytes / slot_bytes) {
  CHECK(slot_bytes == 16 || slot_bytes == 32 || slot_bytes == 64, "slots fill a cache line evenly");
  blocks_.push_back(pool_.take());
  directory_.assign(2, blocks_.front());
}

RowIndex::~RowIndex() = default;

std::size_t RowIndex::find(std::span<const std::uint64_t> keys, std::span<RowSlot*> slots) const {
  switch (slot_bytes_) {
    case 16: return find_as<4>(keys, slots);
    case 32: return find_as<2>(keys, slots);
    default: return find_as<1>(keys, slots);
  }
}

RowSlot* RowIndex::find(std::uint64_t key) const {
  switch (slot_bytes_) {
    case 16: return probe<4>(key, home_of(key));
    case 32: return probe<2>(key, home_of(key));
    default: return probe<1>(key, home_of(key));
  }
}

std::size_t RowIndex::find(std::span<const std::uint64_t> keys, std::span<RowPosition> positions,
                           std::span<RowSlot*> slots) const {
  const auto place = [&](std::size_t i) { return blocks_[positions[i].block]->bytes() + positions[i].byte; };
  std::size_t missing = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i + kAhead < keys.size()) __builtin_prefetch(place(i + kAhead), 1);
    auto* slot = reinterpret_cast<RowSlot*>(place(i));
    // Without a position this is the block's header, whose bytes may look like a key.
    if (slot->key != keys[i] || slot->stamp == 0 || positions[i].byte == 0) [[unlikely]] {
      slot = find(keys[i]);
      positions[i] = position_of(slot);
      missing += slot == nullptr ? 1 : 0;
    }
    slots[i] = slot;
  }
  return slots.size() - missing;
}

RowPosition RowIndex::position_of(const RowSlot* slot) const {
  if (slot == nullptr) return {};
  const auto address = reinterpret_cast<std::uintptr_t>(slot);
  const auto byte = static_cast<std::uint32_t>(address % kBlockBytes);
  return {reinterpret_cast<const RowBlock*>(address - byte)->number, byte};
}

RowSlot* RowIndex::free_slot(RowBlock* block, std::uint64_t hash) const {
  const auto first = static_cast<std::size_t>(line_of(block, hash) - block->bytes() - sizeof(RowBlock)) / slot_bytes_;
  for (std::size_t index = first;; index = index + 1 == block_slots_ ? 0 : index + 1) {
    if (RowSlot* slot = slot_at(block, index); slot->stamp == 0) return slot;
  }
}

void RowIndex::put(RowBlock* block, const RowSlot& slot) {
  std::memcpy(free_slot(block, hash_of(slot.key)), &slot, slot_bytes_);
  ++block->used;
}

// Into the list and all places of the directory that its keys come through.
void RowIndex::enter(RowBlock* block) {
  if (block->number == blocks_.size()) blocks_.push_back(nullptr);
  blocks_[block->number] = block;
  const auto bits = static_cast<std::uint32_t>(64 - shift_);
  const std::size_t count = std::size_t{1} << (bits - block->depth);
  for (std::size_t i = 0; i < count; ++i) directory_[block->prefix * count + i] = block;
}

bool RowIndex::may_split(const RowBlock& block) const {
  return (std::size_t{2} << block.depth) <= kDirectoryPerBlock * (blocks_.size() + 1);
}

void RowIndex::split(RowBlock* block) {
  if (block->depth == static_cast<std::uint32_t>(64 - shift_)) {
    std::vector<RowBlock*> doubled;
    doubled.reserve(directory_.size() * 2);
    for (RowBlock* one : directory_) doubled.insert(doubled.end(), 2, one);
    directory_ = std::move(doubled);
    --shift_;
  }
  RowBlock* const halves[] = {pool_.take(), pool_.take()};
  for (const std::uint32_t i : {0u, 1u}) {
    halves[i]->number = i == 0 ? block->number : blocks();
    halves[i]->depth = block->depth + 1;
    halves[i]->prefix = block->prefix * 2 + i;
  }
  visit(block, 0, [&](RowSlot& slot) {
    put(halves[(hash_of(slot.key) >> (63 - block->depth)) & 1], slot);
    return true;
  });
  enter(halves[0]);
  enter(halves[1]);
  pool_.release(block);
}

std::size_t RowIndex::growth_for(std::uint64_t key) const {
  const RowBlock* block = block_of(hash_of(key));
  if (block->used < block_slots_ / 4 * 3) return 0;
  const bool doubles = block->depth == static_cast<std::uint32_t>(64 - shift_);
  return (block->holders > 1 ? 2 : 1) * kBlockBytes + (doubles ? directory_.size() * sizeof(RowBlock*) : 0);
}

RowSlot* RowIndex::insert(std::uint64_t key, bool may_grow) {
  const std::uint64_t hash = hash_of(key);
  RowBlock* block = block_of(hash);
  while (block->used >= block_slots_ / 4 * 3 && may_grow && may_split(*block)) {
    split(block);
    block = block_of(hash);
  }
  if (block->used >= block_slots_ / 16 * 15) return nullptr;
  if (block->holders > 1) enter(block = pool_.copy_of(block));
  RowSlot* slot = free_slot(block, hash);
  slot->key = key;
  slot->stamp = 1;
  ++block->used;
  ++size_;
  return slot;
}

std::vector<RowBlock*> RowIndex::hold_all() {
  for (RowBlock* block : blocks_) ++block->holders;
  return blocks_;
}

RowSlot* RowIndex::own(RowSlot* slot) {
  const RowPosition position = position_of(slot);
  RowBlock* block = blocks_[position.block];
  if (block->holders > 1) enter(block = pool_.copy_of(block));
  return reinterpret_cast<RowSlot*>(block->bytes() + position.byte);
}

std::size_t RowIndex::memory_bytes() const {
  return pool_.used_bytes() + (directory_.capacity() + blocks_.capacity()) * sizeof(RowBlock*);
}

}  // namespace paceline
