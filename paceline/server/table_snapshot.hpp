// TableSnapshot: all rows of a table as they were on each server at one moment, read piece by piece while workers push
// on. Made by Table::snapshot, put back by Table::restore, on any number of servers.
//
//   TableSnapshot rows = table.snapshot();
//   while (const auto piece = rows.next()) save(*piece);
//
// Note [The moment of a snapshot]. A server begins when it has what a get of the worker's clock must contain, and then
// at once. With bsp that is one moment for all servers: the steps before the worker's clock, and nothing of later ones,
// since those wait for this worker. With other policies each server has its own moment, some messages apart, unless the
// workers have flushed and meet before and after the snapshot is begun (not: is read), as Trainer lets them.
//
// Servers copy what is changed meanwhile, block by block, so that at worst they have the table twice; nobody waits. Not
// in it: what a filter keeps back, updates that softsync has not applied yet, how often keys were pushed that wait for
// admission, when rows were last used (expiry), versions and clocks.
//
// Owned by its Session's thread; ends before the Session. A worker has at most four of a table at a time; one ends when
// it has been read, when it is dropped, and when its worker dies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/server/table.hpp"
#include "paceline/server/table_piece.hpp"

namespace paceline {

class TableSnapshot {
 public:
  TableSnapshot(TableSnapshot&&) noexcept;
  TableSnapshot& operator=(TableSnapshot&&) = delete;
  ~TableSnapshot();

  // The rows that follow, in no particular order of a sparse table; nullopt: that was all. Throws what a server says,
  // or that it is gone.
  std::optional<TablePiece> next();
  // Of each worker: its updates of steps before this one are in it, on all servers.
  const std::vector<std::int64_t>& contained() const;

 private:
  friend class Table;
  struct State;
  explicit TableSnapshot(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace paceline
