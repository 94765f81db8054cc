// What a relay reads at its parents, and how it answers its children from that: see Note [Views].
#include <algorithm>

#include "paceline/core/error.hpp"
#include "paceline/server/relay_shard.hpp"

namespace paceline {
namespace {

constexpr std::ptrdiff_t kViews = 4;  // of a table, that are kept after they were answered

}  // namespace

void RelayShard::pull(int child, const TableRequest& request) {
  RelayTable& table = table_of(request);
  const auto rows = rows_of(child, request, table);
  Reader reader{child, request.header};
  if (!rows) return answer(reader, Status::forgotten);
  if (!broken_.empty()) return answer(reader, Status::worker_lost, broken_);
  View* const found = find_view(table, *rows, child, request.header.required);
  if (found == nullptr) {
    ask(table, *rows, request.header.required).readers.push_back(reader);
  } else if (found->pull != nullptr) {
    reader.joined = true;
    found->readers.push_back(reader);
  } else {
    answer_from(table, *found, reader);
  }
}

// One that is there, or else on its way. Who requires nothing wants what is there now.
RelayShard::View* RelayShard::find_view(RelayTable& table, const RowsOf& rows, int child, std::int64_t required) {
  if (required == 0) return nullptr;
  View* coming = nullptr;
  for (View& view : table.views) {
    const bool same =
        view.range == rows.range && std::equal(view.keys.begin(), view.keys.end(), rows.keys.begin(), rows.keys.end());
    if (!same || view.outdated) continue;
    if (view.pull == nullptr && serves(view, child, required)) return &view;
    if (view.pull != nullptr && view.required >= required) coming = &view;
  }
  return coming;
}

// Whether values that have come contain what a read must, and no less than the reader has seen.
bool RelayShard::serves(const View& view, int child, std::int64_t required) const {
  const auto& told = children_[static_cast<std::size_t>(child)].told;
  const auto own = static_cast<std::size_t>(options_.parent.worker);
  if (adds() && clocks_.slowest() < required) return false;
  for (std::size_t w = 0; w < view.contained.size(); ++w) {
    if (w == own && adds()) continue;  // what it lacks of these is added
    if (view.contained[w] < required || (w < told.size() && view.contained[w] < told[w])) return false;
  }
  return true;
}

RelayShard::View& RelayShard::ask(RelayTable& table, const RowsOf& rows, std::int64_t required) {
  View& view = table.views.emplace_back();
  view.range = rows.range;
  view.keys.assign(rows.keys.begin(), rows.keys.end());
  view.required = required;
  const TableSpec& spec = table.state->spec;
  const bool dense = spec.kind == TableSpec::Kind::dense;
  view.values.resize((dense ? view.range.size() : view.keys.size()) * spec.width);
  view.pull = parents_.request(*table.state);
  dense ? parents_.ask_range(*view.pull, Verb::pull, view.range, {}, view.values, 0, required)
        : parents_.ask_keys(*view.pull, Verb::pull, view.keys, {}, view.values, 0, required);
  return view;
}

// ---- what the parents answer

bool RelayShard::advance() {
  if (!broken_.empty()) return false;
  try {
    parents_.reap();
    bool any = advance_settings();
    for (RelayTable& table : tables_) any |= advance_views(table);
    return any;
  } catch (const Error& error) {
    break_off(error.what());
    return true;
  }
}

bool RelayShard::advance_settings() {
  bool any = false;
  for (auto it = settings_.begin(); it != settings_.end();) {
    const auto here = it++;
    try {
      if (!parents_.advance(*here->put)) continue;
      answer(here->by, Status::done);
    } catch (const Error& error) {
      if (error.code() != Code::invalid) throw;
      answer(here->by, Status::refused, error.what());
    }
    settings_.erase(here);
    any = true;
  }
  return any;
}

bool RelayShard::advance_views(RelayTable& table) {
  bool any = false;
  for (auto it = table.views.begin(); it != table.views.end();) {
    const auto here = it++;
    if (here->pull == nullptr) continue;
    try {
      if (!parents_.advance(*here->pull)) continue;
      take_values(*here);
      hand_out(table, *here);
    } catch (const Error& error) {
      if (error.code() != Code::invalid) throw;
      for (const Reader& reader : here->readers) answer(reader, Status::refused, error.what());
      table.views.erase(here);
    }
    any = true;
  }
  if (any) forget_views(table);
  return any;
}

void RelayShard::take_values(View& view) {
  view.contained = parents_.contained_in(*view.pull);
  view.heard.assign(parents_.links.size(), std::numeric_limits<std::uint64_t>::max());  // others have no part in it
  for (const auto& flight : view.pull->flights) view.heard[static_cast<std::size_t>(flight->server)] = flight->heard;
  view.pull.reset();
}

// Who joined may have seen more meanwhile, in another view.
void RelayShard::hand_out(RelayTable& table, View& view) {
  for (Reader& reader : std::exchange(view.readers, {})) {
    if (!reader.joined || serves(view, reader.child, reader.header.required)) {
      answer_from(table, view, reader);
      continue;
    }
    reader.joined = false;
    ask(table, view.rows(), reader.header.required).readers.push_back(reader);
  }
}

// The latest few are kept, and of what was sent on that which one of them may lack.
void RelayShard::forget_views(RelayTable& table) {
  auto answered = std::count_if(table.views.begin(), table.views.end(), [](const View& view) { return !view.pull; });
  std::erase_if(table.views, [&](const View& view) {
    const bool goes = !view.pull && (view.outdated || answered > kViews);
    answered -= goes ? 1 : 0;
    return goes;
  });
  while (!table.sent.empty() && is_in_every_view(table, table.sent.front())) table.sent.pop_front();
}

// A pull under way contains all that was sent before it.
bool RelayShard::is_in_every_view(const RelayTable& table, const Sent& sent) {
  for (const View& view : table.views) {
    for (std::size_t server = 0; !view.pull && server < view.heard.size(); ++server) {
      if (sent.sequences[server] > view.heard[server]) return false;
    }
    for (std::size_t f = 0; view.pull && f < view.pull->flights.size(); ++f) {
      const TableFlight& flight = *view.pull->flights[f];
      if (sent.sequences[static_cast<std::size_t>(flight.server)] > flight.header.sequence) return false;
    }
  }
  return true;
}

// ---- answers

void RelayShard::answer_from(RelayTable& table, const View& view, const Reader& reader) {
  const std::vector<std::int64_t> contained = contained_for(view);
  std::span<float> into;
  if (reader.header.pull_into.region != 0) {
    try {
      into = mapped(reader.child, reader.header.pull_into, view.values.size());
    } catch (const Error& error) {
      return answer(reader, Status::refused, error.what());
    }
    begin_answer(reader, contained, {});
  } else {
    into = begin_answer(reader, contained, {.values = view.values.size()});
  }
  std::copy(view.values.begin(), view.values.end(), into.begin());
  if (adds()) add_what_it_lacks(table, view, into);
  auto& told = children_[static_cast<std::size_t>(reader.child)].told;
  told.resize(view.contained.size());
  for (std::size_t w = 0; w < told.size(); ++w) told[w] = std::max(told[w], view.contained[w]);
}

void RelayShard::add_what_it_lacks(const RelayTable& table, const View& view, std::span<float> values) const {
  const TableSpec& spec = table.state->spec;
  const int servers = static_cast<int>(parents_.links.size());
  for (const Sent& sent : table.sent) {
    const auto lacking = [&](std::size_t server) { return sent.sequences[server] > view.heard[server]; };
    bool any = false;
    for (std::size_t server = 0; server < view.heard.size(); ++server) any |= lacking(server);
    if (!any) continue;
    add_to_rows(spec, view.rows(), values, sent.changes, [&](std::uint64_t row) {
      return lacking(static_cast<std::size_t>(server_of(*table.state, row, servers)));
    });
  }
  for (const auto& [step, updates] : table.gathered) {
    for (const RowChanges& update : updates)
      add_to_rows(spec, view.rows(), values, update, [](std::uint64_t) { return true; });
  }
}

// The children's, then those of the parents' other workers.
std::vector<std::int64_t> RelayShard::contained_for(const View& view) const {
  const auto own = static_cast<std::size_t>(options_.parent.worker);
  std::vector<std::int64_t> contained;
  for (int child = 0; child < clocks_.workers(); ++child) {
    if (!clocks_.active(child)) {
      contained.push_back(kEverything);
    } else {
      contained.push_back(adds() ? clocks_.at(child) : view.contained[own]);
    }
  }
  for (std::size_t w = 0; w < view.contained.size(); ++w) {
    if (w != own) contained.push_back(view.contained[w]);
  }
  return contained;
}

}  // namespace paceline
