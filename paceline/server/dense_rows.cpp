#include "paceline/server/dense_rows.hpp"

#include <algorithm>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

constexpr std::size_t kBlock = (64 << 10) / sizeof(float);

}  // namespace

struct DenseRows::Kept {
  struct Block {
    std::vector<float> values;  // empty: the range still holds what it held
    std::vector<float> state;
  };
  std::size_t at = 0;         // what comes next
  std::vector<Block> blocks;  // those behind `at` are not needed any more
};

DenseRows::DenseRows(std::span<float> values, std::size_t width, const UpdateRule& rule)
    : values_(values), width_(width), rule_(rule), state_(state_floats(rule.kind) * values.size()) {
  CHECK(width > 0 && values.size() % width == 0, "a range holds whole rows");
  CHECK(reinterpret_cast<std::uintptr_t>(values.data()) % 64 == 0, "a range begins with a cache line");
}

DenseRows::~DenseRows() { CHECK(snapshots_.empty(), "a table outlives its snapshots"); }

void DenseRows::set_rule(const UpdateRule& rule) {
  CHECK(rule.kind == rule_.kind, "a table keeps the kind of its rule, which its state belongs to");
  rule_ = rule;
}

void DenseRows::apply(const Push& push) {
  const std::size_t last = push.first + push.gradient.size();
  CHECK(last <= values_.size(), "an update lies within the range");
  keep_before_change(push.first, last);
  paceline::apply(rule_, {.values = values_.data() + push.first,
                          .state = state_.empty() ? nullptr : state_.data() + push.first,
                          .gradient = push.gradient.data(),
                          .count = push.gradient.size(),
                          .state_spacing = values_.size(),
                          .step = push.step,
                          .scale = push.scale});
}

void DenseRows::put(std::size_t first, std::span<const float> values, std::span<const float> state) {
  const std::size_t arrays = state_floats(rule_.kind);
  CHECK(first + values.size() <= values_.size(), "what is set lies within the range");
  CHECK(state.size() == arrays * values.size(), "every value has its state");
  keep_before_change(first, first + values.size());
  std::copy(values.begin(), values.end(), values_.data() + first);
  for (std::size_t a = 0; a < arrays; ++a) {
    std::copy_n(state.data() + a * values.size(), values.size(), state_.data() + a * values_.size() + first);
  }
}

std::vector<float> DenseRows::state_of(std::size_t first, std::size_t last) const {
  std::vector<float> state;
  for (std::size_t array = 0; array < state_.size(); array += values_.size()) {
    const float* begin = state_.data() + array;
    state.insert(state.end(), begin + first, begin + last);
  }
  return state;
}

void DenseRows::keep_before_change(std::size_t first, std::size_t last) {
  if (first == last) return;
  for (Kept* kept : snapshots_) {
    for (std::size_t b = std::max(first, kept->at) / kBlock; b * kBlock < last; ++b) {
      Kept::Block& block = kept->blocks[b];
      const std::size_t begin = b * kBlock;
      const std::size_t end = std::min(begin + kBlock, values_.size());
      if (!block.values.empty() || end <= kept->at) continue;
      block.values.assign(values_.data() + begin, values_.data() + end);
      block.state = state_of(begin, end);
    }
  }
}

DenseSnapshot DenseRows::snapshot() { return DenseSnapshot(*this); }

DenseSnapshot::DenseSnapshot(DenseRows& rows) : rows_(&rows), kept_(std::make_unique<DenseRows::Kept>()) {
  kept_->blocks.resize((rows.values_.size() + kBlock - 1) / kBlock);
  rows.snapshots_.push_back(kept_.get());
}

DenseSnapshot::DenseSnapshot(DenseSnapshot&&) noexcept = default;

DenseSnapshot::~DenseSnapshot() {
  if (kept_ != nullptr) std::erase(rows_->snapshots_, kept_.get());
}

DenseSnapshot::Piece DenseSnapshot::next(std::size_t most) {
  const std::size_t first = kept_->at;
  const std::size_t b = first / kBlock;
  const std::size_t end = std::min((b + 1) * kBlock, rows_->values_.size());
  const std::size_t last = first + std::min(most, end - first);
  Piece piece{.first = first, .values = {}, .state = {}};
  if (first == last) return piece;
  DenseRows::Kept::Block& block = kept_->blocks[b];
  if (block.values.empty()) {
    piece.values.assign(rows_->values_.data() + first, rows_->values_.data() + last);
    piece.state = rows_->state_of(first, last);
  } else {
    const std::size_t from = first - b * kBlock;
    const std::size_t to = last - b * kBlock;
    piece.values.assign(block.values.data() + from, block.values.data() + to);
    for (std::size_t array = 0; array < block.state.size(); array += block.values.size()) {
      const float* begin = block.state.data() + array;
      piece.state.insert(piece.state.end(), begin + from, begin + to);
    }
  }
  if (last == end) block = {};
  kept_->at = last;
  return piece;
}

}  // namespace paceline
