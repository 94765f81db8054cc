#include "paceline/collective/layout.hpp"

#include <algorithm>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLine = 64;

std::size_t round_up(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
std::size_t pieces(std::size_t bytes, std::size_t piece) {
  return std::max<std::size_t>(1, (bytes + piece - 1) / piece);
}

}  // namespace

std::size_t usual_segment(int blocks, bool between_hosts) {
  constexpr std::size_t kPiece = 60 << 10;
  if (blocks == 1 && between_hosts) return 2 * kPiece;
  return kPiece * static_cast<std::size_t>(std::max(8, blocks));
}

Layout Layout::of_vector(std::size_t bytes, int blocks, std::size_t segment_bytes, int scratch_block) {
  Layout layout;
  layout.bytes_ = bytes;
  layout.blocks_ = blocks;
  layout.scratch_block_ = scratch_block;
  const std::size_t segments = pieces(bytes, std::max(kLine, round_up(std::min(segment_bytes, bytes))));
  layout.segment_bytes_ = std::max(kLine, round_up((bytes + segments - 1) / segments));
  layout.segments_ = pieces(bytes, layout.segment_bytes_);
  return layout;
}

Layout Layout::of_blocks(std::vector<Extent> input, std::vector<Extent> output, std::size_t segment_bytes) {
  std::size_t longest_block = 0;
  for (const Extent& block : input) longest_block = std::max(longest_block, block.bytes);
  for (const Extent& block : output) longest_block = std::max(longest_block, block.bytes);
  Layout layout;
  layout.vector_ = false;
  layout.input_ = std::move(input);
  layout.output_ = std::move(output);
  layout.blocks_ = static_cast<int>(layout.output_.size());
  layout.segment_bytes_ = std::max(kLine, round_up(std::min(segment_bytes, longest_block)));
  layout.segments_ = pieces(longest_block, layout.segment_bytes_);
  return layout;
}

std::size_t Layout::scratch_stride() const {
  if (scratch_block_ < 0) return segment_bytes_;
  // A block is longer than the average by less than a line.
  return round_up(segment_bytes_ / static_cast<std::size_t>(blocks_)) + kLine;
}

Extent Layout::find(const Blocks& blocks, std::size_t segment) const {
  if (vector_) return find_in_vector(blocks, segment);
  CHECK(blocks.count == 1, "blocks of their own sizes are named one by one");
  const bool in_scratch = blocks.buffer == Buffer::scratch;
  const auto index = static_cast<std::size_t>(in_scratch ? blocks.first % blocks_ : blocks.first);
  const Extent whole = blocks.buffer == Buffer::input ? input_[index] : output_[index];
  const std::size_t begin = std::min(whole.bytes, segment * segment_bytes_);
  const std::size_t bytes = std::min(segment_bytes_, whole.bytes - begin);
  const std::size_t copy = in_scratch ? static_cast<std::size_t>(blocks.first / blocks_) : 0;
  return {in_scratch ? copy * segment_bytes_ : whole.offset + begin, bytes};
}

std::size_t Layout::whole_block(const Blocks& blocks) const {
  if (vector_) return 0;
  if (blocks.buffer == Buffer::input) return input_[static_cast<std::size_t>(blocks.first)].bytes;
  return output_[static_cast<std::size_t>(blocks.first % blocks_)].bytes;
}

Extent Layout::find_in_vector(const Blocks& blocks, std::size_t segment) const {
  const std::size_t base = std::min(bytes_, segment * segment_bytes_);
  const std::size_t length = std::min(segment_bytes_, bytes_ - base);
  const bool in_scratch = blocks.buffer == Buffer::scratch;
  if (blocks_ == 1) return {in_scratch ? static_cast<std::size_t>(blocks.first) * segment_bytes_ : base, length};
  const std::size_t lines = (length + kLine - 1) / kLine;
  const int copy = in_scratch ? blocks.first / blocks_ : 0;
  const auto first = static_cast<std::size_t>(blocks.first - copy * blocks_);
  const auto divisor = static_cast<std::size_t>(blocks_);
  const std::size_t begin = std::min(length, lines * first / divisor * kLine);
  const std::size_t end = std::min(length, lines * (first + static_cast<std::size_t>(blocks.count)) / divisor * kLine);
  if (!in_scratch) return {base + begin, end - begin};
  const std::size_t copy_begin = static_cast<std::size_t>(copy) * scratch_stride();
  if (scratch_block_ < 0) return {copy_begin + begin, end - begin};
  CHECK(blocks.first - copy * blocks_ == scratch_block_ && blocks.count == 1, "scratch holds this block");
  return {copy_begin, end - begin};
}

}  // namespace paceline
