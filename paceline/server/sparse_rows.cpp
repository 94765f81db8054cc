#include "paceline/server/sparse_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {
namespace {

// As many rows as stay in the nearest caches between the look-up and the update.
std::size_t chunk_for(const RowFormat& format) {
  const std::size_t row_lines = format.in_slot() ? 1 : 1 + format.row_bytes() / kLineBytes;
  return std::clamp<std::size_t>(512 / row_lines, 16, 512);
}

SparseRowsOptions checked(const SparseRowsOptions& options) {
  if (options.admit_after < 1 || options.admit_after > 255)
    throw Error(Code::invalid, fmt::format("keys are admitted after 1 to 255 pushes, not {}", options.admit_after));
  return options;
}

}  // namespace

SparseRows::SparseRows(const SparseRowsOptions& options)
    : options_(checked(options)),
      format_(options.width, options.dtype, options.rule.kind),
      chunk_(chunk_for(format_)),
      index_(format_.slot_bytes()),
      store_(format_.row_bytes()),
      steps_(options.rule),
      slots_(chunk_) {
  if (options.admit_after > 1) pushes_.emplace(options.admission_counters);
  if (options.memory_budget != 0 && memory_bytes() > options.memory_budget)
    throw Error(Code::invalid, fmt::format("a memory budget of {} bytes is less than the {} of an empty table",
                                           options.memory_budget, memory_bytes()));
}

SparseRows::~SparseRows() { CHECK(snapshots_ == 0, "a table outlives its snapshots"); }

std::size_t SparseRows::memory_bytes() const {
  return index_.memory_bytes() + store_.memory_bytes() + (pushes_ ? pushes_->memory_bytes() : 0);
}

void SparseRows::set_rule(const UpdateRule& rule) {
  CHECK(rule.kind == options_.rule.kind, "a table keeps the kind of its rule, which its state belongs to");
  options_.rule = rule;
  steps_ = StepNumbers(rule);
}

void SparseRows::advance(std::uint32_t clock) {
  CHECK(clock + 1 >= stamp_ && clock + 1 != 0, "the clock does not go back");
  stamp_ = clock + 1;
  if (!pushes_ || options_.time_to_live == 0 || clock - turned_ < options_.time_to_live) return;
  pushes_->turn();
  turned_ = clock;
}

std::size_t SparseRows::expire(std::size_t blocks) {
  if (options_.time_to_live == 0) return 0;
  const auto old = [&](const RowSlot& slot) { return stamp_ - slot.stamp >= options_.time_to_live; };
  std::size_t dropped = 0;
  for (blocks = std::min<std::size_t>(blocks, index_.blocks()); blocks > 0; --blocks, ++swept_) {
    if (swept_ >= index_.blocks()) swept_ = 0;
    if (!format_.in_slot()) {
      index_.visit(index_.block(swept_), 0, [&](RowSlot& slot) {
        if (old(slot)) store_.put_back(slot.word);
        return true;
      });
    }
    dropped += index_.sweep(swept_, old);
  }
  return dropped;
}

ResolvedKeys SparseRows::resolve(std::span<const std::uint64_t> keys) {
  ResolvedKeys resolved{.keys = {keys.begin(), keys.end()}, .positions = {}};
  resolved.positions.reserve(keys.size());
  for (std::size_t begin = 0; begin < keys.size(); begin += chunk_) {
    const std::span<RowSlot*> slots = std::span(slots_).first(std::min(chunk_, keys.size() - begin));
    index_.find(keys.subspan(begin), slots);
    for (const RowSlot* slot : slots) resolved.positions.push_back(index_.position_of(slot));
  }
  resolved.distinct = !folder_.has_duplicates(keys);
  return resolved;
}

std::size_t SparseRows::locate(const Keys& list, std::size_t begin, std::span<RowSlot*> slots) const {
  if (list.positions.empty()) return index_.find(list.keys.subspan(begin), slots);
  return index_.find(list.keys.subspan(begin), list.positions.subspan(begin), slots);
}

void SparseRows::touch(std::span<RowSlot* const> slots) {
  if (options_.time_to_live == 0) return;
  for (RowSlot* slot : slots) {
    if (slot != nullptr) slot->stamp = stamp_;
  }
}

void SparseRows::prefetch_rows(std::span<RowSlot* const> slots) const {
  const std::size_t bytes = format_.row_bytes();
  for (RowSlot* slot : slots) {
    if (slot == nullptr) continue;
    const std::byte* row = store_.row(slot->word);
    for (std::size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at, 1);
  }
}

void SparseRows::read(std::span<const std::uint64_t> keys, std::span<float> into) { read_list({keys}, into); }

void SparseRows::read(ResolvedKeys& keys, std::span<float> into) { read_list({keys.keys, keys.positions}, into); }

void SparseRows::read_list(const Keys& list, std::span<float> into) {
  const std::size_t width = format_.width();
  CHECK(into.size() == list.keys.size() * width, "there is room for every key's row");
  for (std::size_t begin = 0; begin < list.keys.size(); begin += chunk_) {
    const std::span<RowSlot*> slots = std::span(slots_).first(std::min(chunk_, list.keys.size() - begin));
    locate(list, begin, slots);
    touch(slots);
    copy_rows(slots, list.keys.data() + begin, into.data() + begin * width);
  }
}

void SparseRows::copy_rows(std::span<RowSlot* const> slots, const std::uint64_t* keys, float* into) const {
  const std::size_t width = format_.width();
  const auto fill_missing = [&](std::size_t i) {
    const std::span<float> row(into + i * width, width);
    options_.initial.fill(keys[i], row);
    format_.round(row);
  };
  if (width == 1 && format_.dtype() == DType::f32) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] != nullptr) [[likely]] {
        into[i] = *format_.values(slots[i]->row());
      } else {
        fill_missing(i);
      }
    }
    return;
  }
  if (!format_.in_slot()) prefetch_rows(slots);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == nullptr) {
      fill_missing(i);
    } else {
      format_.load(row_of(slots[i]), into + i * width);
    }
  }
}

}  // namespace paceline
