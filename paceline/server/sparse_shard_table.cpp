#include "paceline/server/sparse_shard_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "paceline/server/dense_shard_table.hpp"

namespace paceline {
namespace {

constexpr std::size_t kKnownLists = 64;
constexpr int kUsesBefore = 2;             // a push and a pull of keys that may never come again
constexpr std::size_t kExpireBlocks = 64;  // that one move of the clock looks at

SparseRowsOptions options_of(const TableSpec& spec) {
  return {.width = spec.width,
          .dtype = spec.storage,
          .rule = parse_rule(spec.rule),
          .initial = parse_initializer(spec.init, spec.seed),
          .memory_budget = spec.budget_bytes,
          .admit_after = std::max(1U, spec.admit_after),
          .time_to_live = static_cast<std::uint32_t>(spec.expire_after)};
}

class SparseShardSnapshot final : public ShardSnapshot {
 public:
  explicit SparseShardSnapshot(SparseRows& rows) : rows_(rows.snapshot()) {}
  TablePiece next(std::size_t most) override { return {.range = {}, .rows = rows_.next(most)}; }

 private:
  SparseSnapshot rows_;
};

}  // namespace

SparseShardTable::SparseShardTable(const TableSpec& of) : ShardTable(of), rows_(options_of(of)) {}

std::string SparseShardTable::objection(const RowsOf& rows, std::size_t floats) const {
  if (rows.range.size() != 0) return fmt::format("table '{}' is sparse and has no ranges", spec.name);
  if (floats != rows.keys.size() * spec.width)
    return fmt::format("{} rows of table '{}' are {} floats, not {}", rows.keys.size(), spec.name,
                       rows.keys.size() * spec.width, floats);
  return {};
}

ResolvedKeys* SparseShardTable::resolved(const RowsOf& rows) {
  if (rows.hash == KeysHash{}) return nullptr;
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const auto& list) { return list.hash == rows.hash; });
  if (found == known_.end()) {
    if (known_.size() == kKnownLists) known_.pop_back();
    known_.push_front({.hash = rows.hash, .uses = 1, .resolved = {}});
    return nullptr;
  }
  known_.splice(known_.begin(), known_, found);
  if (++found->uses <= kUsesBefore) return nullptr;
  if (found->resolved.keys.empty()) found->resolved = rows_.resolve(rows.keys);
  return &found->resolved;
}

std::string SparseShardTable::apply_one(const Update& update) {
  ResolvedKeys* const known = resolved(update.rows);
  const AddOutcome outcome = known != nullptr ? rows_.add(*known, update.values, update.scale)
                                              : rows_.add(update.rows.keys, update.values, update.scale);
  return outcome.complaint.empty() ? std::string() : fmt::format("table '{}': {}", spec.name, outcome.complaint);
}

std::string SparseShardTable::apply(std::span<const Update> updates, int divide_by,
                                    std::span<const ReadAlong> /*readers*/) {
  UpdateRule rule = rows_.options().rule;
  for (const Update& update : updates) {
    if (update.rate != 0) rule.lr = update.rate;
  }
  rows_.set_rule(rule);
  if (updates.size() == 1 && divide_by == 1) return apply_one(updates.front());
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  for (const Update& update : updates) {
    keys.insert(keys.end(), update.rows.keys.begin(), update.rows.keys.end());
    for (const float value : update.values) values.push_back(value / static_cast<float>(divide_by));
  }
  const AddOutcome outcome = rows_.add(keys, values, updates.empty() ? 1 : updates.front().scale);
  return outcome.complaint.empty() ? std::string() : fmt::format("table '{}': {}", spec.name, outcome.complaint);
}

std::string SparseShardTable::put(const RowsOf& rows, std::span<const float> values) {
  const UpdateRule& rule = rows_.options().rule;
  RowBatch batch;
  batch.keys.assign(rows.keys.begin(), rows.keys.end());
  batch.values.assign(values.begin(), values.end());
  if (rule.kind == RuleKind::add) drop_signs_of_zeros(batch.values);
  batch.state.resize(values.size() * state_floats(rule.kind));
  if (counts_steps(rule.kind)) batch.steps.resize(rows.keys.size());
  return rows_.put(batch).complaint;
}

std::unique_ptr<ShardSnapshot> SparseShardTable::snapshot() { return std::make_unique<SparseShardSnapshot>(rows_); }

std::string SparseShardTable::restore(const TablePiece& piece) {
  RowBatch batch = piece.rows;
  if (rows_.options().rule.kind == RuleKind::add) drop_signs_of_zeros(batch.values);
  const AddOutcome outcome = rows_.put(batch);
  return outcome.complaint.empty() ? std::string() : fmt::format("table '{}': {}", spec.name, outcome.complaint);
}

void SparseShardTable::read(const RowsOf& rows, int /*reader*/, std::span<float> into) {
  ResolvedKeys* const known = resolved(rows);
  known != nullptr ? rows_.read(*known, into) : rows_.read(rows.keys, into);
}

void SparseShardTable::advance(std::int64_t slowest) {
  if (spec.expire_after == 0) return;
  constexpr std::int64_t kLastStamp = std::numeric_limits<std::uint32_t>::max() - 1;
  rows_.advance(static_cast<std::uint32_t>(std::min(slowest, kLastStamp)));
  rows_.expire(kExpireBlocks);
}

std::unique_ptr<ShardTable> make_shard_table(const TableSpec& spec, const ShardPlace& place) {
  if (spec.kind == TableSpec::Kind::dense) return std::make_unique<DenseShardTable>(spec, place);
  return std::make_unique<SparseShardTable>(spec);
}

}  // namespace paceline
