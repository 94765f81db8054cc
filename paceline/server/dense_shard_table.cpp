#include "paceline/server/dense_shard_table.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "paceline/core/error.hpp"
#include "paceline/core/reduce.hpp"
#include "paceline/server/combine_updates.hpp"
#include "paceline/server/row_initializer.hpp"
#include "paceline/server/stream_copy.hpp"

namespace paceline {
namespace {

constexpr std::size_t kBlock = 4096;  // floats: with the state of Adam and a gradient, 64 KiB
constexpr std::size_t kStreamed = std::size_t{4}
                                  << 20;  // floats of a table on this server whose readers get them past the caches
constexpr std::size_t kLargePage = std::size_t{2} << 20;

// The kernel promises memory that is not there, and ends a process that uses it.
const TableSpec& check_memory(const TableSpec& spec, const ShardPlace& place) {
  const std::uint64_t rows = range_of_server(spec.rows, spec.width, place.servers, place.index).size();
  const std::uint64_t copies = 1 + state_floats(parse_rule(spec.rule).kind) +
                               (spec.compensation != 0 ? static_cast<std::uint64_t>(place.workers) : 0);
  struct sysinfo machine {};
  sysinfo(&machine);
  const double bytes = static_cast<double>(rows) * spec.width * static_cast<double>(copies) * sizeof(float);
  if (bytes > static_cast<double>(machine.totalram) * machine.mem_unit)
    throw Error(Code::invalid, fmt::format("table '{}' takes {:.0f} GB on a server, more than this machine has",
                                           spec.name, bytes / 1e9));
  return spec;
}

}  // namespace

// Large pages are asked for before the first touch, so that a pass over the table needs fewer translations.
DenseMemory::DenseMemory(std::size_t floats) {
  const std::size_t bytes = std::max<std::size_t>(1, floats) * sizeof(float);
  alignment_ = std::align_val_t{bytes >= kLargePage ? kLargePage : 64};
  span_ = {static_cast<float*>(::operator new(bytes, alignment_)), floats};
  if (bytes >= kLargePage) madvise(span_.data(), bytes, MADV_HUGEPAGE);  // a wish: no matter if it is not granted
  std::fill(span_.begin(), span_.end(), 0.0F);
}
DenseMemory::~DenseMemory() { ::operator delete(span_.data(), alignment_); }

DenseShardTable::DenseShardTable(const TableSpec& of, const ShardPlace& place)
    : ShardTable(check_memory(of, place)),
      range_(range_of_server(of.rows, of.width, place.servers, place.index)),
      memory_(range_.size() * of.width),
      rows_(memory_.span(), of.width, parse_rule(of.rule)),
      steps_(memory_.span().size()),
      block_(kBlock) {
  const RowInitializer initial = parse_initializer(of.init, of.seed);
  for (std::uint64_t row = 0; row < range_.size(); ++row)
    initial.fill(range_.first + row, memory_.span().subspan(row * of.width, of.width));
  if (of.compensation != 0)
    read_by_.assign(static_cast<std::size_t>(place.workers), {memory_.span().begin(), memory_.span().end()});
}

std::string DenseShardTable::objection(const RowsOf& rows, std::size_t floats) const {
  if (!rows.keys.empty()) {
    if (const std::string why = objection_to_list(rows.keys); !why.empty()) return why;
    if (floats == rows.keys.size() * spec.width) return {};
    return fmt::format("{} rows of table '{}' are {} floats, not {}", rows.keys.size(), spec.name,
                       rows.keys.size() * spec.width, floats);
  }
  if (rows.range.first < range_.first || rows.range.last > range_.last)
    return fmt::format("rows {} to {} of table '{}' are not all here: this server has {} to {}", rows.range.first,
                       rows.range.last, spec.name, range_.first, range_.last);
  if (floats != rows.range.size() * spec.width)
    return fmt::format("{} rows of table '{}' are {} floats, not {}", rows.range.size(), spec.name,
                       rows.range.size() * spec.width, floats);
  return {};
}

std::string DenseShardTable::objection_to_list(std::span<const std::uint64_t> rows) const {
  if (spec.rule != "add" || spec.compensation != 0)
    return fmt::format("table '{}' is dense: only with the rule add, without delay compensation, are its rows listed",
                       spec.name);
  for (const std::uint64_t row : rows) {
    if (row < range_.first || row >= range_.last)
      return fmt::format("row {} of table '{}' is not here: this server has {} to {}", row, spec.name, range_.first,
                         range_.last);
  }
  return {};
}

DenseShardTable::Part DenseShardTable::elements_of(const RowRange& rows) const {
  return {(rows.first - range_.first) * spec.width, (rows.last - range_.first) * spec.width};
}

std::vector<DenseShardTable::Part> DenseShardTable::parts_of(std::span<const Update> updates) const {
  std::vector<std::uint64_t> bounds;
  for (const Update& update : updates) {
    const Part part = elements_of(update.rows.range);
    bounds.insert(bounds.end(), {part.first, part.last});
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::vector<Part> parts;
  for (std::size_t i = 1; i < bounds.size(); ++i) parts.push_back({bounds[i - 1], bounds[i]});
  return parts;
}

// Delay compensation must know what each worker has read, which is noted in read().
bool DenseShardTable::can_read_along(const RowsOf& rows, std::span<const Update> updates) const {
  return spec.compensation == 0 && std::all_of(updates.begin(), updates.end(), [&](const Update& update) {
           return update.rows.keys.empty() && update.rows.range.first <= rows.range.first &&
                  update.rows.range.last >= rows.range.last;
         });
}

std::string DenseShardTable::apply(std::span<const Update> updates, int divide_by, std::span<const ReadAlong> readers) {
  UpdateRule rule = rows_.rule();
  for (const Update& update : updates) {
    if (update.rate != 0) rule.lr = update.rate;
  }
  rows_.set_rule(rule);
  const auto listed = [](const Update& update) { return !update.rows.keys.empty(); };
  if (std::none_of(updates.begin(), updates.end(), listed)) {
    apply_ranges(updates, divide_by, readers);
  } else if (updates.size() == 1) {
    add_listed(updates.front());
  } else {
    std::vector<Update> ranges;
    for (const Update& update : updates) {
      ranges.push_back({.worker = update.worker, .rows = update.rows, .values = update.values});
      if (listed(update)) spread(ranges.back());
    }
    apply_ranges(ranges, divide_by, readers);
  }
  return {};
}

void DenseShardTable::apply_ranges(std::span<const Update> updates, int divide_by, std::span<const ReadAlong> readers) {
  for (const Part& part : parts_of(updates)) apply_part(part, updates, divide_by, readers);
  finish_streams();
}

// Rows that follow each other are one piece. The rule is add, which counts no steps.
void DenseShardTable::add_listed(const Update& update) {
  const auto rows = update.rows.keys;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && rows[end] == rows[end - 1] + 1; ++end) {
    }
    rows_.apply({.first = elements_of({rows[begin], rows[end - 1] + 1}).first,
                 .gradient = update.values.subspan(begin * spec.width, (end - begin) * spec.width)});
  }
}

// As a range with zeros for what is not listed.
void DenseShardTable::spread(Update& update) const {
  RowChanges range = spread_rows(update.rows.keys, update.values, spec.width);
  update.rows = {.range = range.range};
  update.owned = std::move(range.values);
  update.values = update.owned;
}

const float* DenseShardTable::values_at(const Update& update, std::uint64_t element) const {
  return update.values.data() + (element - elements_of(update.rows.range).first);
}

void DenseShardTable::apply_part(const Part& part, std::span<const Update> updates, int divide_by,
                                 std::span<const ReadAlong> readers) {
  std::vector<const Update*> covering;
  for (const Update& update : updates) {
    const Part of = elements_of(update.rows.range);
    if (of.first <= part.first && of.last >= part.last) covering.push_back(&update);
  }
  if (covering.empty()) return;
  const double scale = covering.front()->scale;
  const bool straight = covering.size() == 1 && divide_by == 1 && spec.compensation == 0;
  steps_.add(part.first, part.last, [&](std::uint64_t first, std::uint64_t last, std::uint64_t step) {
    for (std::uint64_t at = first; at < last; at += kBlock) {
      const std::size_t count = std::min<std::size_t>(kBlock, last - at);
      const float* gradient = straight ? values_at(*covering.front(), at) : block_.data();
      if (!straight) sum_block(at, count, covering, divide_by);
      rows_.apply({.first = at, .gradient = {gradient, count}, .step = step, .scale = scale});
      hand_out(at, count, readers);
    }
  });
}

void DenseShardTable::hand_out(std::uint64_t first, std::size_t count, std::span<const ReadAlong> readers) const {
  for (const ReadAlong& reader : readers) {
    const Part part = elements_of(reader.rows.range);
    const std::uint64_t begin = std::max(first, part.first);
    const std::uint64_t end = std::min(first + count, part.last);
    if (begin >= end) continue;
    float* const into = reader.into.data() + (begin - part.first);
    const float* const from = memory_.span().data() + begin;
    if (memory_.span().size() >= kStreamed) {
      stream_copy(into, from, end - begin);
    } else {
      std::memcpy(into, from, (end - begin) * sizeof(float));
    }
  }
}

// In the updates' order, so that the bits depend on it alone.
void DenseShardTable::sum_block(std::uint64_t first, std::size_t count, std::span<const Update* const> covering,
                                int divide_by) {
  std::vector<const std::byte*> sources;
  for (const Update* update : covering)
    sources.push_back(reinterpret_cast<const std::byte*>(values_at(*update, first)));
  std::byte* const target = reinterpret_cast<std::byte*>(block_.data());
  fold({.op = ReduceOp::average,
        .sources = sources,
        .targets = {&target, 1},
        .bytes = count * sizeof(float),
        .divide_by = divide_by});
  if (spec.compensation != 0) compensate(*covering.front(), first, count);
}

// Of updates that are applied as one, the first worker's view stands for all.
void DenseShardTable::compensate(const Update& update, std::uint64_t first, std::size_t count) {
  compensate_delay({.gradient = block_.data(),
                    .now = memory_.span().data() + first,
                    .then = read_by_[static_cast<std::size_t>(update.worker)].data() + first,
                    .count = count},
                   spec.compensation);
}

std::string DenseShardTable::put(const RowsOf& rows, std::span<const float> values) {
  const Part part = elements_of(rows.range);
  rows_.put(part.first, values, std::vector<float>(state_floats(rows_.rule().kind) * values.size()));
  if (spec.rule == "add") drop_signs_of_zeros(memory_.span().subspan(part.first, part.last - part.first));
  for (std::vector<float>& read : read_by_)
    std::copy(values.begin(), values.end(), read.begin() + static_cast<std::ptrdiff_t>(part.first));
  return {};
}

void DenseShardTable::read(const RowsOf& rows, int reader, std::span<float> into) {
  const Part part = elements_of(rows.range);
  std::memcpy(into.data(), memory_.span().data() + part.first, into.size_bytes());
  if (spec.compensation != 0)
    std::copy(into.begin(), into.end(),
              read_by_[static_cast<std::size_t>(reader)].begin() + static_cast<std::ptrdiff_t>(part.first));
}

std::uint64_t DenseShardTable::memory_bytes() const {
  return memory_.span().size_bytes() * (1 + read_by_.size()) + rows_.memory_bytes();
}

}  // namespace paceline
