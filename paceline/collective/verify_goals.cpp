#include <algorithm>

#include "paceline/collective/verify.hpp"

namespace paceline::goals {
namespace {

using Kind = Content::Kind;

Content copied(int rank, Buffer buffer, int block) { return {Kind::copied, rank, buffer, block}; }
Content reduced(Buffer buffer, int block) { return {Kind::reduced, -1, buffer, block}; }
int one_size(int, Buffer, int) { return 0; }

// The place in `list` of the occurrence of `value` that has `before` others in front of it; -1 if there is none.
int place_of(const std::vector<int>& list, int value, std::ptrdiff_t before) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == value && before-- == 0) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

Goal allreduce(int n) {
  return {.name = "allreduce", .ranks = n, .content = [](int, int block) { return reduced(Buffer::output, block); }};
}

Goal reduce_scatter(int n) {
  return {.name = "reduce_scatter",
          .ranks = n,
          .vector = false,
          .inputs = [n](int) { return n; },
          .content = [](int rank, int) { return reduced(Buffer::input, rank); },
          .size = one_size};
}

// Also allgatherv: each rank's block has a size of its own.
Goal allgather(int n) {
  return {.name = "allgather", .ranks = n, .vector = false, .content = [](int, int block) {
            return copied(block, Buffer::output, block);
          }};
}

// Also alltoallv: each pair's block has a size of its own.
Goal alltoall(int n) {
  return {.name = "alltoall",
          .ranks = n,
          .vector = false,
          .inputs = [n](int) { return n; },
          .content = [](int rank, int block) { return copied(block, Buffer::input, rank); },
          .size = [n](int rank, Buffer buffer,
                      int block) { return buffer == Buffer::input ? rank * n + block : block * n + rank; }};
}

Goal broadcast(int n, int root) {
  return {.name = "broadcast", .ranks = n, .content = [root](int, int block) {
            return copied(root, Buffer::output, block);
          }};
}

Goal reduce(int n, int root) {
  return {.name = "reduce", .ranks = n, .content = [root](int rank, int block) {
            return rank == root ? reduced(Buffer::output, block) : Content{};
          }};
}

Goal gather(int n, int root) {
  return {.name = "gather",
          .ranks = n,
          .vector = false,
          .inputs = [](int) { return 1; },
          .outputs = [root](int rank, int blocks) { return rank == root ? blocks : 0; },
          .content = [](int, int block) { return copied(block, Buffer::input, 0); },
          .size = one_size};
}

Goal scatter(int n, int root) {
  return {.name = "scatter",
          .ranks = n,
          .vector = false,
          .inputs = [n, root](int rank) { return rank == root ? n : 0; },
          .content = [root](int rank, int) { return copied(root, Buffer::input, rank); },
          .size = one_size};
}

// Its messages are empty, so that blocks stand for nothing but the order of steps.
Goal barrier(int n) {
  return {.name = "barrier",
          .ranks = n,
          .content = [](int, int) { return Content{.kind = Kind::unspecified}; },
          .size = one_size,
          .all_must_enter = true};
}

Goal neighbours(const std::vector<std::vector<int>>& lists) {
  const auto list_of = [lists](int rank) { return lists[static_cast<std::size_t>(rank)]; };
  return {.name = "neighbour_exchange",
          .ranks = static_cast<int>(lists.size()),
          .vector = false,
          .inputs = [list_of](int rank) { return static_cast<int>(list_of(rank).size()); },
          .content =
              [list_of](int rank, int block) {
                const std::vector<int> mine = list_of(rank);
                const int peer = mine[static_cast<std::size_t>(block)];
                return copied(peer, Buffer::input,
                              place_of(list_of(peer), rank, std::count(mine.begin(), mine.begin() + block, peer)));
              },
          .size = one_size};
}

}  // namespace paceline::goals
