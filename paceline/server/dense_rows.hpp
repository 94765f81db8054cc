// DenseRows: rows 0 to count-1 in one flat range that the caller gives, for example shared memory, with the state of an
// update rule beside it. An update is one pass over values, state and gradient.
//
// Snapshots keep blocks of 64 KiB of values, with their state, as they were before the first change. Owned by one
// thread; the range outlives it, and it outlives its snapshots. Others may read the range only when they know that no
// update is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "paceline/server/update_rule.hpp"

namespace paceline {

class DenseSnapshot;

class DenseRows {
 public:
  // `values` is a whole number of rows and begins at a multiple of 64 bytes; what it holds is kept.
  DenseRows(std::span<float> values, std::size_t width, const UpdateRule& rule);
  ~DenseRows();
  DenseRows(const DenseRows&) = delete;
  DenseRows& operator=(const DenseRows&) = delete;

  struct Push {
    std::size_t first = 0;  // elements, not rows
    std::span<const float> gradient;
    std::uint64_t step = 1;  // of these elements, for rules that count steps; kept by the caller
    double scale = 1;
  };
  void apply(const Push& push);
  // Sets elements with their state, such as those that a snapshot gave: state_floats arrays of values.size().
  void put(std::size_t first, std::span<const float> values, std::span<const float> state);

  // Rates may change; the kind stays. CHECKs that it does.
  void set_rule(const UpdateRule& rule);

  DenseSnapshot snapshot();

  std::span<const float> values() const { return values_; }
  std::size_t rows() const { return values_.size() / width_; }
  std::size_t width() const { return width_; }
  const UpdateRule& rule() const { return rule_; }
  // Without the range itself and without snapshots.
  std::size_t memory_bytes() const { return state_.size() * sizeof(float); }

 private:
  friend class DenseSnapshot;
  struct Kept;  // what a snapshot keeps
  void keep_before_change(std::size_t first, std::size_t last);
  std::vector<float> state_of(std::size_t first, std::size_t last) const;

  const std::span<float> values_;
  const std::size_t width_;
  UpdateRule rule_;
  std::vector<float> state_;  // state_floats arrays of values_.size()
  std::vector<Kept*> snapshots_;
};

// The elements of a moment, in pieces. Owned by its table's thread; ends before the table does.
class DenseSnapshot {
 public:
  ~DenseSnapshot();
  DenseSnapshot(DenseSnapshot&&) noexcept;
  DenseSnapshot& operator=(DenseSnapshot&&) = delete;

  struct Piece {
    std::size_t first = 0;
    std::vector<float> values;  // empty: the end
    std::vector<float> state;   // state_floats arrays of values.size()
  };
  // The elements that follow, at most so many, and at most a block of 64 KiB.
  Piece next(std::size_t most);

 private:
  friend class DenseRows;
  explicit DenseSnapshot(DenseRows& rows);

  DenseRows* rows_;
  std::unique_ptr<DenseRows::Kept> kept_;
};

}  // namespace paceline
