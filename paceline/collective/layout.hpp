// Layout: where the numbered blocks of a schedule lie in memory. A long operation is cut into segments, each of which
// runs through the whole schedule by itself, so that what is being worked on stays in the caches and links never idle.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/collective/schedule.hpp"

namespace paceline {

struct Extent {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// How long a segment is unless a user says otherwise, for a schedule of so many blocks. A block of it is at least a
// piece that a frame between hosts takes whole: shorter ones would cost more than their bytes. Of a schedule that knows
// one block only, whoever passes a segment on waits for all of it: between hosts it is short, on one host, where ranks
// wake each other for every segment, it is not.
std::size_t usual_segment(int blocks, bool between_hosts);

class Layout {
 public:
  Layout() = default;
  // One vector, the output, cut evenly into segments of at most `segment_bytes` and a cache line, and each segment
  // evenly into blocks, on cache-line boundaries. `scratch_block`: as in Schedule.
  static Layout of_vector(std::size_t bytes, int blocks, std::size_t segment_bytes, int scratch_block = -1);
  // Given blocks, each cut into segments; a block that is shorter than others has empty last segments.
  static Layout of_blocks(std::vector<Extent> input, std::vector<Extent> output, std::size_t segment_bytes);

  std::size_t segments() const { return segments_; }
  Extent find(const Blocks& blocks, std::size_t segment) const;
  // The bytes of a given block in all segments; 0 in a layout of one vector.
  std::size_t whole_block(const Blocks& blocks) const;
  // Of one copy of the output in scratch.
  std::size_t scratch_stride() const;

 private:
  Extent find_in_vector(const Blocks& blocks, std::size_t segment) const;

  bool vector_ = true;
  std::size_t bytes_ = 0;
  int blocks_ = 1;
  int scratch_block_ = -1;
  std::size_t segment_bytes_ = 0;
  std::size_t segments_ = 1;
  std::vector<Extent> input_;
  std::vector<Extent> output_;
};

}  // namespace paceline
