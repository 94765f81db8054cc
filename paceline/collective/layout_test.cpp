#include "paceline/collective/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline {
namespace {

constexpr std::size_t kKiB = 1 << 10;

// The blocks of all segments, one after the other, are the vector: nothing twice, nothing left out.
TEST(VectorLayout, TilesTheVector) {
  for (const std::size_t bytes : {0UL, 1UL, 4UL, 63UL, 64UL, 65UL, 1000UL, 4 * kKiB, 100'004UL, 1000 * kKiB}) {
    for (const int blocks : {1, 2, 3, 7, 17, 64}) {
      for (const std::size_t segment_bytes : {1UL, 64UL, 100UL, 4 * kKiB, 1UL << 30}) {
        const Layout layout = Layout::of_vector(bytes, blocks, segment_bytes);
        std::size_t at = 0;
        for (std::size_t segment = 0; segment < layout.segments(); ++segment) {
          for (int block = 0; block < blocks; ++block) {
            const Extent extent = layout.find(output(block), segment);
            ASSERT_EQ(extent.offset, at) << bytes << " bytes, block " << block << " of " << blocks << ", segment "
                                         << segment;
            at += extent.bytes;
          }
        }
        EXPECT_EQ(at, bytes);
      }
    }
  }
}

TEST(VectorLayout, IsOnePieceIfTheSegmentIsAsLongAsTheVector) {
  for (const std::size_t bytes : {0UL, 1UL, 63UL, 65UL, 1000UL, 10'004UL})
    EXPECT_EQ(Layout::of_vector(bytes, 3, bytes).segments(), 1u) << bytes;
}

// Who passes a whole segment on waits for it: between hosts that must not be long. Blocks must not become shorter.
TEST(VectorLayout, HasSegmentsThatGrowWithTheBlocks) {
  EXPECT_LT(usual_segment(1, true), usual_segment(1, false));
  for (const bool between_hosts : {false, true}) {
    EXPECT_EQ(usual_segment(2, between_hosts), usual_segment(8, between_hosts));
    EXPECT_EQ(usual_segment(64, between_hosts) / 64, usual_segment(1024, between_hosts) / 1024);
  }
}

TEST(VectorLayout, HasSegmentsOfOneLength) {
  const Layout layout = Layout::of_vector(1024 * kKiB, 1, 480 * kKiB);
  ASSERT_EQ(layout.segments(), 3u);
  const std::size_t first = layout.find(output(0), 0).bytes, last = layout.find(output(0), 2).bytes;
  EXPECT_LE(first - last, 3 * 64u);
}

TEST(VectorLayout, KeepsOneBlockOfEveryCopyInScratch) {
  for (const std::size_t bytes : {1UL, 64UL, 1000UL, 100'004UL, 1000 * kKiB}) {
    for (const int blocks : {2, 3, 7, 64}) {
      for (const int kept : {0, 1, blocks - 1}) {
        const Layout layout = Layout::of_vector(bytes, blocks, 10'000, kept);
        EXPECT_LE(layout.scratch_stride(), 10'000u / static_cast<unsigned>(blocks) + 128);
        for (std::size_t segment = 0; segment < layout.segments(); ++segment) {
          const Extent whole = layout.find(output(kept), segment);
          const Extent third = layout.find({Buffer::scratch, 2 * blocks + kept, 1}, segment);
          EXPECT_EQ(third.offset, 2 * layout.scratch_stride());
          EXPECT_EQ(third.bytes, whole.bytes);
          EXPECT_LE(third.bytes, layout.scratch_stride());
        }
      }
    }
  }
}

TEST(VectorLayout, CutsOnCacheLinesOnlySoThatNoElementIsSplit) {
  const Layout layout = Layout::of_vector(100'004, 7, 10'000);
  for (std::size_t segment = 0; segment < layout.segments(); ++segment) {
    for (int block = 0; block < 7; ++block) {
      const Extent extent = layout.find(output(block), segment);
      EXPECT_TRUE(extent.bytes == 0 || extent.offset % 64 == 0) << extent.offset;
    }
  }
}

TEST(VectorLayout, BlocksDifferByOneLineAtMost) {
  const Layout layout = Layout::of_vector(64 * 1000, 7, 1 << 20);
  for (int block = 0; block < 7; ++block) {
    const std::size_t bytes = layout.find(output(block), 0).bytes;
    EXPECT_TRUE(bytes == 64 * 142 || bytes == 64 * 143) << bytes;
  }
}

TEST(VectorLayout, ARangeIsItsBlocksTogether) {
  for (const Buffer buffer : {Buffer::output, Buffer::scratch}) {
    const Layout layout = Layout::of_vector(100'000, 8, 30'000);
    for (std::size_t segment = 0; segment < layout.segments(); ++segment) {
      for (int first = 0; first < 8; ++first) {
        std::size_t bytes = 0;
        for (int count = 1; first + count <= 8; ++count) {
          bytes += layout.find({buffer, first + count - 1, 1}, segment).bytes;
          const Extent range = layout.find({buffer, first, count}, segment);
          EXPECT_EQ(range.bytes, bytes);
          EXPECT_EQ(range.offset, layout.find({buffer, first, 1}, segment).offset);
        }
      }
    }
  }
}

TEST(VectorLayout, ScratchBlocksHaveTheSizesOfTheOutputsAndCopiesLieApart) {
  for (const int blocks : {1, 5}) {
    const Layout layout = Layout::of_vector(100'000, blocks, 30'000);
    for (std::size_t segment = 0; segment < layout.segments(); ++segment) {
      for (int copy = 0; copy < 3; ++copy) {
        for (int block = 0; block < blocks; ++block) {
          const Extent scratch = layout.find({Buffer::scratch, copy * blocks + block, 1}, segment);
          const auto begin = static_cast<std::size_t>(copy) * layout.scratch_stride();
          EXPECT_EQ(scratch.bytes, layout.find(output(block), segment).bytes);
          EXPECT_GE(scratch.offset, begin);
          EXPECT_LE(scratch.offset + scratch.bytes, begin + layout.scratch_stride());
        }
      }
    }
  }
}

TEST(BlocksLayout, TilesEveryBlockInSegments) {
  const std::vector<Extent> blocks = {{0, 1000}, {1000, 0}, {1000, 4}, {1004, 70'000}};
  const Layout layout = Layout::of_blocks(blocks, blocks, 16 * kKiB);
  EXPECT_EQ(layout.segments(), 5U);
  for (const Buffer buffer : {Buffer::input, Buffer::output}) {
    for (int block = 0; block < 4; ++block) {
      const Extent& whole = blocks[static_cast<std::size_t>(block)];
      std::size_t at = whole.offset;
      for (std::size_t segment = 0; segment < layout.segments(); ++segment) {
        const Extent piece = layout.find({buffer, block, 1}, segment);
        EXPECT_TRUE(piece.bytes == 0 || piece.offset == at) << piece.offset;
        at += piece.bytes;
      }
      EXPECT_EQ(at, whole.offset + whole.bytes);
    }
  }
}

// Two ranks that share a block need not share anything else, and must still cut it alike.
TEST(BlocksLayout, CutsABlockAlikeWhateverOtherBlocksARankHas) {
  for (const std::size_t shared : {0UL, 4UL, 1000UL, 4 * kKiB, 4 * kKiB + 4, 50'000UL}) {
    for (const std::size_t mine : {0UL, 100UL, 4 * kKiB, 5000UL, 200'000UL}) {
      for (const std::size_t theirs : {0UL, 60UL, 4 * kKiB, 70'000UL}) {
        const Layout here = Layout::of_blocks({{0, shared}, {shared, mine}}, {{0, 8}}, 4 * kKiB);
        const Layout there = Layout::of_blocks({}, {{0, theirs}, {theirs, shared}}, 4 * kKiB);
        for (std::size_t segment = 0; segment < std::max(here.segments(), there.segments()); ++segment) {
          EXPECT_EQ(here.find(input(0), segment).bytes, there.find(output(1), segment).bytes)
              << shared << " bytes beside " << mine << " and " << theirs << ", segment " << segment;
        }
      }
    }
  }
}

TEST(BlocksLayout, OfNothingHasOneEmptySegment) {
  EXPECT_EQ(Layout::of_blocks({}, {}, 4 * kKiB).segments(), 1U);
  EXPECT_EQ(Layout::of_vector(0, 3, 4 * kKiB).segments(), 1U);
  EXPECT_EQ(Layout::of_vector(0, 3, 4 * kKiB).find(output(2), 0).bytes, 0U);
}

TEST(BlocksLayout, CountsBeyondTwoToTheThirtyTwo) {
  const std::size_t huge = (std::size_t{5} << 32) + 12;
  const Layout vector = Layout::of_vector(huge, 3, 512 * kKiB);
  const Extent last = vector.find(output(2), vector.segments() - 1);
  EXPECT_EQ(last.offset + last.bytes, huge);
  const Layout blocks = Layout::of_blocks({}, {{0, huge}, {huge, huge}}, 512 * kKiB);
  const Extent end = blocks.find(output(1), blocks.segments() - 1);
  EXPECT_EQ(end.offset + end.bytes, 2 * huge);
}

}  // namespace
}  // namespace paceline
