// DenseShardTable: one server's range of a dense table.
//
// Updates that are applied as one may cover different ranges: the range is cut at all their bounds, and each part is
// summed and applied in blocks that stay in the cache, so that summing costs no pass over memory of its own.
//
// The rows of an update may also be listed by their numbers, where the rule is add: what is not listed counts as zero.
#pragma once

#include <new>

#include "paceline/server/dense_rows.hpp"
#include "paceline/server/range_counts.hpp"
#include "paceline/server/shard_table.hpp"

namespace paceline {

// Zeros at a multiple of a cache line, in large pages where the machine gives them.
class DenseMemory {
 public:
  explicit DenseMemory(std::size_t floats);
  ~DenseMemory();
  DenseMemory(const DenseMemory&) = delete;
  DenseMemory& operator=(const DenseMemory&) = delete;
  std::span<float> span() const { return span_; }

 private:
  std::align_val_t alignment_{64};
  std::span<float> span_;
};

class DenseShardTable final : public ShardTable {
 public:
  DenseShardTable(const TableSpec& of, const ShardPlace& place);

  std::string objection(const RowsOf& rows, std::size_t floats) const override;
  std::string apply(std::span<const Update> updates, int divide_by, std::span<const ReadAlong> readers) override;
  bool can_read_along(const RowsOf& rows, std::span<const Update> updates) const override;
  std::string put(const RowsOf& rows, std::span<const float> values) override;
  void read(const RowsOf& rows, int reader, std::span<float> into) override;
  std::unique_ptr<ShardSnapshot> snapshot() override;
  std::string restore(const TablePiece& piece) override;
  std::uint64_t memory_bytes() const override;

  std::span<const float> values() const { return memory_.span(); }
  RowRange range() const { return range_; }

 private:
  struct Part {  // in elements of this server
    std::uint64_t first;
    std::uint64_t last;
  };
  std::string objection_to_list(std::span<const std::uint64_t> rows) const;
  void add_listed(const Update& update);
  void spread(Update& update) const;
  void apply_ranges(std::span<const Update> updates, int divide_by, std::span<const ReadAlong> readers);
  std::vector<Part> parts_of(std::span<const Update> updates) const;
  Part elements_of(const RowRange& rows) const;
  void apply_part(const Part& part, std::span<const Update> updates, int divide_by, std::span<const ReadAlong> readers);
  void hand_out(std::uint64_t first, std::size_t count, std::span<const ReadAlong> readers) const;
  void sum_block(std::uint64_t first, std::size_t count, std::span<const Update* const> covering, int divide_by);
  const float* values_at(const Update& update, std::uint64_t element) const;
  void compensate(const Update& update, std::uint64_t first, std::size_t count);

  const RowRange range_;
  DenseMemory memory_;
  DenseRows rows_;
  RangeCounts steps_;
  std::vector<float> block_;
  std::vector<std::vector<float>> read_by_;  // delay compensation: as each worker has last read it
};

}  // namespace paceline
