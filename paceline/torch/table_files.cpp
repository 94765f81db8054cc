#include "paceline/torch/table_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/server/update_rule.hpp"

namespace paceline {
namespace {

using nlohmann::json;

constexpr const char* kTables = "tables";
constexpr std::size_t kOnTheWay = 16;  // pieces that servers may not have taken yet

json description_of(const TableSpec& spec) {
  json table = {{"name", spec.name}, {"width", spec.width}, {"rule", spec.rule}};
  const bool dense = spec.kind == TableSpec::Kind::dense;
  table["kind"] = dense ? "dense" : "sparse";
  if (dense) table["rows"] = spec.rows;
  return table;
}

TableSpec spec_from(const json& table) {
  TableSpec spec{.name = table.at("name").get<std::string>()};
  if (table.at("kind") == "dense") {
    spec.kind = TableSpec::Kind::dense;
    spec.rows = table.at("rows").get<std::uint64_t>();
  }
  spec.width = table.at("width").get<std::uint32_t>();
  spec.rule = table.at("rule").get<std::string>();
  check(spec);
  return spec;
}

// A file of tables from its beginning, what it says of itself checked.
class TablesReader {
 public:
  explicit TablesReader(const std::string& path) : path_(path), file_(path) {
    const auto first = file_.next();
    try {
      if (!first || first->name != kTables) throw Error(Code::invalid, "it does not say what tables it has");
      for (const json& table : json::parse(first->content)) specs_.push_back(spec_from(table));
    } catch (const std::exception& error) {
      refuse(error.what());
    }
  }

  struct Piece {
    const TableSpec* spec = nullptr;
    TablePiece piece;
  };
  std::optional<Piece> next() {
    const auto record = file_.next();
    if (!record) return std::nullopt;
    const TableSpec* const spec = find(record->name);
    if (spec == nullptr) refuse(fmt::format("it has rows of '{}', of which its beginning says nothing", record->name));
    try {
      Piece next{.spec = spec, .piece = decode_table_piece(record->content)};
      if (const std::string why = objection(*spec, next.piece); !why.empty()) refuse(why);
      return next;
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  const TableSpec* find(const std::string& name) const {
    const auto found =
        std::find_if(specs_.begin(), specs_.end(), [&](const TableSpec& spec) { return spec.name == name; });
    return found == specs_.end() ? nullptr : &*found;
  }
  // What is there must fit what is wanted.
  void require_alike(const TableSpec& there, const TableSpec& wanted) const {
    if (there.kind == wanted.kind && there.rows == wanted.rows && there.width == wanted.width &&
        parse_rule(there.rule).kind == parse_rule(wanted.rule).kind)
      return;
    refuse(fmt::format("its table '{}' is {}, and this run's is {}; resume with the flags of the run that saved it",
                       there.name, description_of(there).dump(), description_of(wanted).dump()));
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(Code::invalid, fmt::format("{} cannot be used: {}", path_, why));
  }

 private:
  const std::string path_;
  RowsFileReader file_;
  std::vector<TableSpec> specs_;
};

void begin_file(RowsFileWriter& file, const std::vector<TableSpec>& specs) {
  json tables = json::array();
  for (const TableSpec& spec : specs) tables.push_back(description_of(spec));
  file.append(kTables, tables.dump());
}

TableSpec without_state(TableSpec spec) {
  spec.rule = "add";
  return spec;
}

}  // namespace

TablesSnapshot::TablesSnapshot(const std::vector<Table>& tables) {
  for (Table table : tables) {
    specs_.push_back(table.spec());
    snapshots_.push_back(table.snapshot());
  }
}

void TablesSnapshot::write(RowsFileWriter& file) {
  begin_file(file, specs_);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    while (const auto piece = snapshots_[i].next()) file.append(specs_[i].name, encode(*piece));
  }
}

std::vector<std::string> restore_tables(const std::string& path, const std::vector<Table>& tables) {
  TablesReader reader(path);
  std::vector<std::string> missing;
  for (const Table& table : tables) {
    const TableSpec* const there = reader.find(table.spec().name);
    if (there == nullptr) {
      missing.push_back(table.spec().name);
    } else {
      reader.require_alike(*there, table.spec());
    }
  }
  std::deque<TablePending> on_the_way;
  while (const auto next = reader.next()) {
    const auto table = std::find_if(tables.begin(), tables.end(),
                                    [&](const Table& each) { return each.spec().name == next->spec->name; });
    if (table == tables.end()) continue;
    on_the_way.push_back(Table(*table).restore(next->piece));
    if (on_the_way.size() < kOnTheWay) continue;
    on_the_way.front().wait();
    on_the_way.pop_front();
  }
  for (TablePending& pending : on_the_way) pending.wait();
  return missing;
}

void copy_values(const std::string& from, const std::string& to, const std::vector<std::string>& tables) {
  TablesReader reader(from);
  std::vector<TableSpec> specs;
  for (const std::string& name : tables) {
    const TableSpec* const there = reader.find(name);
    if (there == nullptr) reader.refuse(fmt::format("it has no table '{}'", name));
    specs.push_back(without_state(*there));
  }
  RowsFileWriter file(to);
  begin_file(file, specs);
  while (auto next = reader.next()) {
    if (std::find(tables.begin(), tables.end(), next->spec->name) == tables.end()) continue;
    next->piece.rows.state.clear();
    next->piece.rows.steps.clear();
    file.append(next->spec->name, encode(next->piece));
  }
  file.publish();
}

void read_values(const std::string& path, const std::vector<TableSpec>& specs,
                 const std::function<void(std::size_t table, const TablePiece& piece)>& take) {
  TablesReader reader(path);
  for (const TableSpec& spec : specs) {
    const TableSpec* const there = reader.find(spec.name);
    if (there == nullptr) reader.refuse(fmt::format("it has no table '{}'", spec.name));
    reader.require_alike(*there, without_state(spec));
  }
  while (const auto next = reader.next()) {
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const TableSpec& each) { return each.name == next->spec->name; });
    if (spec != specs.end()) take(static_cast<std::size_t>(spec - specs.begin()), next->piece);
  }
}

}  // namespace paceline
