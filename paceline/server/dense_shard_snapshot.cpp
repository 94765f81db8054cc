// Snapshots of a dense table on one server, in whole rows, and their way back.
#include <algorithm>

#include "paceline/server/dense_shard_table.hpp"
#include "paceline/server/row_initializer.hpp"

namespace paceline {
namespace {

// DenseRows keeps a rule's state as arrays over the whole range; a piece has a row's arrays one after the other, so
// that it can be cut between any two rows.
struct StateShape {
  std::size_t rows = 0;
  std::size_t width = 1;
  std::size_t arrays = 0;
};

std::vector<float> by_row(const std::vector<std::vector<float>>& arrays, const StateShape& shape) {
  std::vector<float> state;
  state.reserve(shape.rows * shape.width * shape.arrays);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (const std::vector<float>& array : arrays) {
      const auto first = array.begin() + static_cast<std::ptrdiff_t>(row * shape.width);
      state.insert(state.end(), first, first + static_cast<std::ptrdiff_t>(shape.width));
    }
  }
  return state;
}

std::vector<float> by_array(const std::vector<float>& state, const StateShape& shape) {
  std::vector<float> arrays(state.size());
  for (std::size_t row = 0; row < shape.rows; ++row) {
    for (std::size_t array = 0; array < shape.arrays; ++array)
      std::copy_n(state.data() + (row * shape.arrays + array) * shape.width, shape.width,
                  arrays.data() + (array * shape.rows + row) * shape.width);
  }
  return arrays;
}

class DenseShardSnapshot final : public ShardSnapshot {
 public:
  struct Origin {
    std::uint64_t first = 0;  // row
    StateShape shape;
    bool counts_steps = false;
  };
  DenseShardSnapshot(const Origin& origin, DenseSnapshot rows, RangeCounts steps)
      : origin_(origin), rows_(std::move(rows)), steps_(std::move(steps)) {}

  TablePiece next(std::size_t most) override {
    const StateShape& shape = origin_.shape;
    TablePiece piece;
    std::vector<std::vector<float>> arrays(shape.arrays);
    const std::size_t wanted = most * shape.width;
    while (piece.rows.values.size() < wanted) {
      const DenseSnapshot::Piece some = rows_.next(wanted - piece.rows.values.size());
      if (some.values.empty()) break;
      piece.rows.values.insert(piece.rows.values.end(), some.values.begin(), some.values.end());
      for (std::size_t array = 0; array < shape.arrays; ++array) {
        const auto first = some.state.begin() + static_cast<std::ptrdiff_t>(array * some.values.size());
        arrays[array].insert(arrays[array].end(), first, first + static_cast<std::ptrdiff_t>(some.values.size()));
      }
    }
    const std::size_t rows = piece.rows.values.size() / shape.width;
    piece.range = {origin_.first + at_, origin_.first + at_ + rows};
    piece.rows.state = by_row(arrays, {.rows = rows, .width = shape.width, .arrays = shape.arrays});
    if (origin_.counts_steps) add_steps(rows, piece.rows.steps);
    at_ += rows;
    return piece;
  }

 private:
  // Updates are of whole rows, so that a row's elements have one count.
  void add_steps(std::size_t rows, std::vector<std::uint32_t>& to) const {
    const std::size_t width = origin_.shape.width;
    steps_.visit(at_ * width, (at_ + rows) * width, [&](std::uint64_t first, std::uint64_t last, std::uint64_t count) {
      to.insert(to.end(), (last - first) / width, static_cast<std::uint32_t>(count));
    });
  }

  const Origin origin_;
  DenseSnapshot rows_;
  const RangeCounts steps_;
  std::size_t at_ = 0;  // rows that were given
};

}  // namespace

std::unique_ptr<ShardSnapshot> DenseShardTable::snapshot() {
  const RuleKind kind = rows_.rule().kind;
  return std::make_unique<DenseShardSnapshot>(
      DenseShardSnapshot::Origin{.first = range_.first,
                                 .shape = {.rows = 0, .width = spec.width, .arrays = state_floats(kind)},
                                 .counts_steps = paceline::counts_steps(kind)},
      rows_.snapshot(), steps_);
}

std::string DenseShardTable::restore(const TablePiece& piece) {
  const Part part = elements_of(piece.range);
  const std::vector<float>& values = piece.rows.values;
  rows_.put(part.first, values,
            by_array(piece.rows.state,
                     {.rows = piece.range.size(), .width = spec.width, .arrays = state_floats(rows_.rule().kind)}));
  if (spec.rule == "add") drop_signs_of_zeros(memory_.span().subspan(part.first, part.last - part.first));
  for (std::vector<float>& read : read_by_)
    std::copy(values.begin(), values.end(), read.begin() + static_cast<std::ptrdiff_t>(part.first));
  for (std::size_t row = 0; row < piece.rows.steps.size(); ++row)
    steps_.set(part.first + row * spec.width, part.first + (row + 1) * spec.width, piece.rows.steps[row]);
  return {};
}

}  // namespace paceline
