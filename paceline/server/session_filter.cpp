// What a Session leaves out of the incs that it sends: see update_filter.hpp.
#include "paceline/server/session_state.hpp"

namespace paceline {

template <class Rows>
std::span<const float> Session::State::sift(TablePending::State& request, Rows rows, std::span<const float> changes) {
  Table::State& table = *request.table;
  if (table.filter.threshold == 0) return changes;
  const std::uint64_t before = table.kept.rows();
  request.sifted = table.kept.sift(table.spec, rows, changes, table.filter.threshold);
  counters.kept_rows += table.kept.rows() - before;
  return request.sifted;
}
template std::span<const float> Session::State::sift(TablePending::State&, RowRange, std::span<const float>);
template std::span<const float> Session::State::sift(TablePending::State&, Table::Keys, std::span<const float>);

// Not those that every server reads in the worker's memory.
bool Session::State::travels(const TablePending::State& request, std::span<const float> values) const {
  MappedValues where;
  for (int server = 0; server < static_cast<int>(options.servers.size()); ++server) {
    if (request.copies || !mapped(server, values, where)) return true;
  }
  return false;
}

// True: `worth` has the places of the rows that are to be sent, as its keys, and their values.
bool Session::State::pick_rows_worth_sending(TablePending::State& request, std::span<const float> changes) {
  if (!request.table->drops_zeros || !travels(request, changes)) return false;
  const std::size_t width = request.table->spec.width;
  const auto rows = rows_worth_sending(changes, width);
  if (!rows) return false;
  auto& worth = request.worth;
  worth.keys.assign(rows->begin(), rows->end());
  worth.values.reserve(rows->size() * width);
  for (const std::uint32_t row : *rows) {
    const auto first = changes.begin() + static_cast<std::ptrdiff_t>(row * width);
    worth.values.insert(worth.values.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  const std::size_t left_out = changes.size() / width - rows->size();
  counters.unsent_rows += left_out;
  counters.bytes_saved += left_out * width * sizeof(float) - rows->size() * sizeof(std::uint64_t);
  request.keys_come_again = false;
  return true;
}

void Session::State::push_changes(TablePending::State& request, RowRange rows, std::span<const float> changes) {
  if (!pick_rows_worth_sending(request, changes)) return ask_range(request, Verb::push, rows, changes, {}, 0, 0);
  auto& worth = request.worth;
  for (std::uint64_t& row : worth.keys) row += rows.first;
  if (!worth.keys.empty()) ask_keys(request, Verb::push, worth.keys, worth.values, {}, 0, 0);
}

void Session::State::push_changes(TablePending::State& request, Table::Keys keys, std::span<const float> changes) {
  if (!pick_rows_worth_sending(request, changes)) return ask_keys(request, Verb::push, keys, changes, {}, 0, 0);
  auto& worth = request.worth;
  for (std::uint64_t& key : worth.keys) key = keys[key];
  if (!worth.keys.empty()) ask_keys(request, Verb::push, worth.keys, worth.values, {}, 0, 0);
}

void Session::State::send_kept(Table::State& table) {
  const auto all = table.kept.take();
  if (!all) return;
  auto push = request(table);
  push->keys_come_again = false;
  const SessionCounters before = counters;
  const bool dense = table.spec.kind == TableSpec::Kind::dense;
  const RowRange whole{0, table.spec.rows};
  dense ? push_changes(*push, whole, all->values) : push_changes(*push, all->keys, all->values);
  counters.unsent_rows = before.unsent_rows;  // these are counted by incs
  counters.bytes_saved = before.bytes_saved;
  if (dense) note_own(table, *push, whole, all->values);
  let_go(std::move(push));
}

}  // namespace paceline
