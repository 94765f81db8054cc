// ShardTable: one server's part of a table. Knows rows and rules, nothing of messages, clocks or who waits.
//
// A ServerShard owns its tables; one thread touches them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "paceline/server/placement.hpp"
#include "paceline/server/protocol.hpp"
#include "paceline/server/table_piece.hpp"
#include "paceline/server/table_spec.hpp"

namespace paceline {

// Which rows of a table, as a request names them.
struct RowsOf {
  RowRange range = {};                       // dense, counted over all servers
  std::span<const std::uint64_t> keys = {};  // sparse
  KeysHash hash = {};                        // of the keys, for tables that remember where they found them
};

// One update that has arrived.
struct Update {
  int worker = 0;
  std::int64_t clock = 0;
  double rate = 0;   // learning rate; 0: the rule's own
  double scale = 1;  // of the learning rate
  RowsOf rows = {};
  std::span<const float> values = {};
  MappedValues mapped = {};             // where values lie, if in the worker's memory
  std::vector<std::byte> message = {};  // that rows and values lie in, where they do not lie in mapped memory
  std::vector<float> owned = {};        // values that were in mapped memory until their worker left
};

// A read that is answered while updates are applied: each part as soon as it is done, while it is in the cache.
struct ReadAlong {
  RowsOf rows = {};
  std::span<float> into = {};
};

// A server's part of a table as it was at one moment, while updates go on. Ends before its table does.
class ShardSnapshot {
 public:
  virtual ~ShardSnapshot() = default;
  // The rows that follow, at most so many; none: that was all.
  virtual TablePiece next(std::size_t most) = 0;
};

class ShardTable {
 public:
  virtual ~ShardTable() = default;

  // Why these rows, with so many floats, are not rows of this table on this server; empty if they are.
  virtual std::string objection(const RowsOf& rows, std::size_t floats) const = 0;
  std::size_t floats_of(const RowsOf& rows) const {
    return (rows.keys.empty() ? rows.range.size() : rows.keys.size()) * spec.width;
  }
  // The updates as one: added up in their order, divided by `divide_by`, applied by the rule once. Returns what was
  // refused of it, and why, the rest being applied; empty if nothing was.
  virtual std::string apply(std::span<const Update> updates, int divide_by, std::span<const ReadAlong> readers) = 0;
  // Whether a read could be answered along with these updates, that is, whether they change all of it.
  virtual bool can_read_along(const RowsOf& /*rows*/, std::span<const Update> /*updates*/) const { return false; }
  // Sets rows; what the rule remembers of them begins anew. Returns why not; empty if it was done.
  virtual std::string put(const RowsOf& rows, std::span<const float> values) = 0;
  // `reader` is the worker who reads.
  virtual void read(const RowsOf& rows, int reader, std::span<float> into) = 0;
  virtual std::unique_ptr<ShardSnapshot> snapshot() = 0;
  // Sets rows with what the rule remembers of them. The piece is one of this table on this server. Returns what was
  // refused of it, and why, the rest being set; empty if nothing was.
  virtual std::string restore(const TablePiece& piece) = 0;
  virtual std::uint64_t memory_bytes() const = 0;
  // The slowest clock has moved: for rows that expire.
  virtual void advance(std::int64_t /*slowest*/) {}

  const TableSpec spec;
  std::uint64_t version = 0;  // updates applied

 protected:
  explicit ShardTable(TableSpec of) : spec(std::move(of)) {}
};

// Server `index` of `servers`, for a job of so many workers.
struct ShardPlace {
  int index = 0;
  int servers = 1;
  int workers = 1;
  int leaves = 0;  // workers with those behind relays, by whose number gradients of a step are divided; 0: `workers`
};
std::unique_ptr<ShardTable> make_shard_table(const TableSpec& spec, const ShardPlace& place);

}  // namespace paceline
