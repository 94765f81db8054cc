#include "paceline/server/combine_updates.hpp"

#include <algorithm>
#include <utility>

#include "paceline/server/fold_keys.hpp"

namespace paceline {
namespace {

void add(std::span<float> into, std::span<const float> changes) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += changes[i];
}

double rate_of(std::span<const RowChanges> updates) {
  double rate = 0;
  for (const RowChanges& update : updates) rate = update.rate != 0 ? update.rate : rate;
  return rate;
}

std::vector<RowChanges> combine_keys(std::vector<RowChanges> updates, std::size_t width) {
  RowChanges all{.rate = rate_of(updates)};
  for (const RowChanges& update : updates) {
    all.keys.insert(all.keys.end(), update.keys.begin(), update.keys.end());
    all.values.insert(all.values.end(), update.values.begin(), update.values.end());
  }
  KeyFolder folder;
  if (folder.fold(all.keys, all.values, width)) {
    all.keys.assign(folder.keys().begin(), folder.keys().end());
    all.values.assign(folder.gradients().begin(), folder.gradients().end());
  }
  std::vector<RowChanges> one;
  one.push_back(std::move(all));
  return one;
}

// The ranges as few that do not touch each other, ascending.
std::vector<RowRange> joined(std::span<const RowChanges> updates) {
  std::vector<RowRange> ranges;
  for (const RowChanges& update : updates) {
    if (update.range.size() != 0) ranges.push_back(update.range);
  }
  std::sort(ranges.begin(), ranges.end(), [](RowRange a, RowRange b) { return a.first < b.first; });
  std::vector<RowRange> apart;
  for (const RowRange& range : ranges) {
    if (!apart.empty() && range.first <= apart.back().last) {
      apart.back().last = std::max(apart.back().last, range.last);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

// The first update of a row is copied, not added to 0, which would turn its -0 to 0.
void sum_into(RowChanges& sum, const RowChanges& update, std::vector<bool>& begun, std::size_t width) {
  for (std::uint64_t row = update.range.first; row < update.range.last; ++row) {
    const std::uint64_t at = row - sum.range.first;
    const auto into = std::span(sum.values).subspan(at * width, width);
    const auto from = std::span(update.values).subspan((row - update.range.first) * width, width);
    if (begun[at]) {
      add(into, from);
    } else {
      std::copy(from.begin(), from.end(), into.begin());
    }
    begun[at] = true;
  }
}

std::vector<RowChanges> combine_ranges(std::span<const RowChanges> updates, std::size_t width) {
  std::vector<RowChanges> sums;
  for (const RowRange& range : joined(updates)) {
    RowChanges& sum = sums.emplace_back();
    sum.rate = rate_of(updates);
    sum.range = range;
    sum.values.resize(range.size() * width);
    std::vector<bool> begun(range.size());
    for (const RowChanges& update : updates) {
      if (overlap(update.range, range).size() != 0) sum_into(sum, update, begun, width);
    }
  }
  return sums;
}

}  // namespace

std::vector<RowChanges> combine_updates(const TableSpec& spec, std::vector<RowChanges> updates) {
  if (updates.empty()) return {};
  std::stable_sort(updates.begin(), updates.end(),
                   [](const RowChanges& a, const RowChanges& b) { return a.worker < b.worker; });
  if (spec.kind == TableSpec::Kind::dense) return combine_ranges(updates, spec.width);
  return combine_keys(std::move(updates), spec.width);
}

RowChanges spread_rows(std::span<const std::uint64_t> rows, std::span<const float> values, std::size_t width) {
  const auto [least, greatest] = std::minmax_element(rows.begin(), rows.end());
  RowChanges all;
  all.range = {*least, *greatest + 1};
  all.values.resize(all.range.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i)
    add(std::span(all.values).subspan((rows[i] - all.range.first) * width, width), values.subspan(i * width, width));
  return all;
}

void add_to_rows(const TableSpec& spec, const RowsOf& rows, std::span<float> values, const RowChanges& change,
                 const std::function<bool(std::uint64_t row)>& counts) {
  const std::size_t width = spec.width;
  const auto add_row = [&](std::size_t to, std::size_t from) {
    add(values.subspan(to * width, width), std::span(change.values).subspan(from * width, width));
  };
  if (spec.kind == TableSpec::Kind::dense) {
    const RowRange both = overlap(rows.range, change.range);
    for (std::uint64_t row = both.first; row < both.last; ++row) {
      if (counts(row)) add_row(row - rows.range.first, row - change.range.first);
    }
    return;
  }
  std::vector<std::pair<std::uint64_t, std::size_t>> places;
  for (std::size_t i = 0; i < rows.keys.size(); ++i) places.emplace_back(rows.keys[i], i);
  std::sort(places.begin(), places.end());
  for (std::size_t from = 0; from < change.keys.size(); ++from) {
    const std::uint64_t key = change.keys[from];
    if (!counts(key)) continue;
    for (auto at = std::lower_bound(places.begin(), places.end(), std::pair(key, std::size_t{0}));
         at != places.end() && at->first == key; ++at)
      add_row(at->second, from);
  }
}

}  // namespace paceline
