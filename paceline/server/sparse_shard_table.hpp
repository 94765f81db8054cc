// SparseShardTable: one server's rows of a sparse table.
#pragma once

#include <list>

#include "paceline/server/shard_table.hpp"
#include "paceline/server/sparse_rows.hpp"

namespace paceline {

class SparseShardTable final : public ShardTable {
 public:
  explicit SparseShardTable(const TableSpec& of);

  std::string objection(const RowsOf& rows, std::size_t floats) const override;
  std::string apply(std::span<const Update> updates, int divide_by, std::span<const ReadAlong> readers) override;
  std::string put(const RowsOf& rows, std::span<const float> values) override;
  void read(const RowsOf& rows, int reader, std::span<float> into) override;
  std::unique_ptr<ShardSnapshot> snapshot() override;
  std::string restore(const TablePiece& piece) override;
  std::uint64_t memory_bytes() const override { return rows_.memory_bytes(); }
  void advance(std::int64_t slowest) override;

  SparseRows& rows() { return rows_; }

 private:
  // A list that comes again and again is looked up once.
  struct KnownList {
    KeysHash hash;
    int uses = 0;
    ResolvedKeys resolved;
  };
  ResolvedKeys* resolved(const RowsOf& rows);
  std::string apply_one(const Update& update);

  SparseRows rows_;
  std::list<KnownList> known_;  // the latest first
};

}  // namespace paceline
