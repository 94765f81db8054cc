// SparseRows: rows of `width` values by 64-bit key, with the state of an update rule, made when they are first pushed.
// Every key has its own row; all 2^64 keys may be used. Written for lists of keys, unsorted and with duplicates.
//
//   SparseRows rows({.width = 8, .rule = parse_rule("adagrad:0.1"), .initial = parse_initializer("normal:0.01")});
//   AddOutcome outcome = rows.add(keys, gradients);      // gradients: keys.size() x width
//   rows.read(keys, values);
//
// What an add does, by key: the gradients of one list for the same key are summed, then applied once. (Rules for which
// that is the same but for rounding, add and sgd without decay, apply them one by one, in the list's order.)
//
// Growing moves some 3,000 slots at a time, see row_index.hpp. Memory that expired rows leave is used for new rows, not
// given back. Owned by one thread; outlives its snapshots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/dtype.hpp"
#include "paceline/server/fold_keys.hpp"
#include "paceline/server/push_counter.hpp"
#include "paceline/server/row_batch.hpp"
#include "paceline/server/row_format.hpp"
#include "paceline/server/row_index.hpp"
#include "paceline/server/row_initializer.hpp"
#include "paceline/server/row_store.hpp"
#include "paceline/server/update_kernels.hpp"
#include "paceline/server/update_rule.hpp"

namespace paceline {

struct SparseRowsOptions {
  std::size_t width = 1;
  // Of the values; the state is f32. A row of width 1 without state lies beside its key and takes no less as f16 or
  // bf16.
  DType dtype = DType::f32;
  UpdateRule rule = {};
  RowInitializer initial = {};
  // Bytes; 0: no limit. Holds for making rows: what a snapshot copies comes on top.
  std::size_t memory_budget = 0;
  // A key gets its row with its nth push, counted by a PushCounter, so perhaps earlier; what was pushed before is lost.
  // At most 255. Duplicates in one list may count once.
  unsigned admit_after = 1;
  std::size_t admission_counters = 1 << 20;
  // Clocks without a push or read after which `expire` drops a row; 0: never. Pushes that wait for admission are
  // forgotten after one to two times as long.
  std::uint32_t time_to_live = 0;
};

struct AddOutcome {
  std::size_t applied = 0;   // gradients; duplicates may be summed before and then count once
  std::size_t created = 0;   // rows
  std::size_t withheld = 0;  // gradients for keys that are not admitted yet
  // Keys whose rows would not have fitted the memory budget: nothing of theirs has changed.
  std::vector<std::uint64_t> refused;

  // "no room for new rows, the first with key 7: the table has 3000 rows in 131072 of 150000 bytes"; empty if none.
  std::string complaint;
};

// A list of keys with the places where their rows were last found, for lists that come again. What has moved since is
// found anew, so that it never goes stale, only slower for once.
struct ResolvedKeys {
  std::vector<std::uint64_t> keys;
  std::vector<RowPosition> positions;
  bool distinct = false;
};

class SparseSnapshot;

class SparseRows {
 public:
  // Throws Error{invalid} for options that cannot be.
  explicit SparseRows(const SparseRowsOptions& options);
  ~SparseRows();
  SparseRows(const SparseRows&) = delete;
  SparseRows& operator=(const SparseRows&) = delete;

  AddOutcome add(std::span<const std::uint64_t> keys, std::span<const float> gradients, double scale = 1);
  AddOutcome add(ResolvedKeys& keys, std::span<const float> gradients, double scale = 1);

  // A key without a row reads as the initial value of its row, which is not made.
  void read(std::span<const std::uint64_t> keys, std::span<float> into);
  void read(ResolvedKeys& keys, std::span<float> into);

  ResolvedKeys resolve(std::span<const std::uint64_t> keys);

  // What pushes and reads are stamped with from now on; never less than before.
  void advance(std::uint32_t clock);
  // Looks at the next `blocks` of the table, at most some 4,000 rows each, and drops what nobody used for the time to
  // live. How many rows that were. Returns to the beginning after the end.
  std::size_t expire(std::size_t blocks);

  // Rates may change; the kind stays. CHECKs that it does.
  void set_rule(const UpdateRule& rule);

  // All rows as they are now, while adds go on. Costs now a few bytes per block of 64 KiB; then each add copies the
  // blocks that it is the first to change: with keys all over the table, soon all of them, once.
  SparseSnapshot snapshot();
  // Sets rows with their state, such as those that a snapshot gave; admission is not asked.
  AddOutcome put(const RowBatch& batch);

  const SparseRowsOptions& options() const { return options_; }
  std::size_t size() const { return index_.size(); }
  std::size_t memory_bytes() const;

 private:
  friend class SparseSnapshot;
  struct Keys {
    std::span<const std::uint64_t> keys;
    std::span<RowPosition> positions = {};  // none: not resolved
  };

  AddOutcome add_list(const Keys& list, std::span<const float> gradients, double scale);
  void read_list(const Keys& list, std::span<float> into);
  std::size_t locate(const Keys& list, std::size_t begin, std::span<RowSlot*> slots) const;
  // Makes the rows whose slots are nullptr. Those that stay so are withheld or refused.
  void make_missing(const Keys& list, std::size_t begin, std::span<RowSlot*> slots, AddOutcome& outcome);
  bool admitted(std::uint64_t key);
  RowSlot* make(std::uint64_t key);
  void refuse(std::uint64_t key, AddOutcome& outcome) const;
  void touch(std::span<RowSlot* const> slots);
  void own(std::span<RowSlot*> slots);
  std::byte* row_of(RowSlot* slot) const { return format_.in_slot() ? slot->row() : store_.row(slot->word); }
  void copy_rows(std::span<RowSlot* const> slots, const std::uint64_t* keys, float* into) const;
  void prefetch_rows(std::span<RowSlot* const> slots) const;
  void update(std::span<RowSlot* const> slots, const float* gradients);
  void update_in_slots(std::span<RowSlot* const> slots, const float* gradients) const;

  SparseRowsOptions options_;
  const RowFormat format_;
  const std::size_t chunk_;  // keys that are looked up before their rows are updated
  RowIndex index_;
  RowStore store_;  // unused if rows lie in their slots
  std::optional<PushCounter> pushes_;
  std::uint32_t turned_ = 0;  // the clock at which the counter last turned
  std::uint32_t stamp_ = 1;   // the clock plus 1
  std::uint32_t swept_ = 0;   // the block that expire looks at next
  std::size_t snapshots_ = 0;

  // Kept from list to list.
  double scale_ = 1;
  StepNumbers steps_;
  KeyFolder folder_;
  std::vector<RowSlot*> slots_;
  std::vector<RowPointers> pointers_;
  std::vector<RuleNumbers> numbers_;
  std::vector<float> wide_;  // values of rows that are not f32
};

// The rows of a moment, in pieces. Owned by its table's thread; ends before the table does.
class SparseSnapshot {
 public:
  explicit SparseSnapshot(SparseRows& rows);
  ~SparseSnapshot();
  SparseSnapshot(SparseSnapshot&& other) noexcept;
  SparseSnapshot& operator=(SparseSnapshot&&) = delete;

  std::size_t size() const { return size_; }
  // The next rows, at most so many. Empty at the end. No particular order.
  RowBatch next(std::size_t most);

 private:
  void append(RowSlot& slot, RowBatch& batch) const;
  void pass_block();

  SparseRows* rows_;
  const std::size_t size_;
  std::vector<RowBlock*> blocks_;  // nullptr: passed
  std::vector<RowBlock*> stored_;
  std::size_t block_ = 0;
  std::size_t slot_ = 0;
};

}  // namespace paceline
