// The rows of tables as files: out of running servers beside a checkpoint, back onto any number of servers, and without
// what rules remember beside a model. Rows pass through piece by piece; nobody ever has a whole table in memory, except
// who loads one to predict. Without torch in its header.
//
// Such a file (record/rows_file.hpp) begins with the record "tables": JSON, of each its name, kind, rows if it is
// dense, width and rule. The others have a table's name and hold a piece of it (server/table_piece.hpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/record/rows_file.hpp"
#include "paceline/server/table.hpp"
#include "paceline/server/table_snapshot.hpp"

namespace paceline {

// Snapshots of several tables, begun with it. The Session outlives it.
class TablesSnapshot {
 public:
  explicit TablesSnapshot(const std::vector<Table>& tables);
  void write(RowsFileWriter& file);

 private:
  std::vector<TableSpec> specs_;
  std::vector<TableSnapshot> snapshots_;
};

// Sets the rows of these tables that the file has; returns the names of those that are not in it. What the file has of
// other tables is left out. Error{invalid} naming the file: a table of another shape or another kind of rule.
std::vector<std::string> restore_tables(const std::string& path, const std::vector<Table>& tables);

// The values of these tables, without state, as a file of their own.
void copy_values(const std::string& from, const std::string& to, const std::vector<std::string>& tables);

// Hands out the pieces of the tables that `specs` names, each with its number there; by values only (rule add).
// Error{invalid} naming the file: one is missing, or of another shape.
void read_values(const std::string& path, const std::vector<TableSpec>& specs,
                 const std::function<void(std::size_t table, const TablePiece& piece)>& take);

}  // namespace paceline
