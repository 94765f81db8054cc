#include "paceline/collective/schedules.hpp"

namespace paceline::schedules {
namespace {

// Rooted trees are drawn with the root as rank 0.
int relative(int rank, int root, int n) { return (rank + n - root) % n; }
int absolute(int rank, int root, int n) { return (rank + root) % n; }

}  // namespace

// n-1 rounds, each passing on the block that came last: S(n-1)/n bytes per rank, to one neighbour only.
Schedule ring_allgather(int n, int rank) {
  Schedule s{.blocks = n};
  const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
  for (int round = 0; round < n - 1; ++round) {
    s.send(next, output((rank + n - round) % n));
    s.receive(previous, output((previous + n - round) % n));
  }
  return s;
}

// One round: the own block to everybody. The ring's bytes without its chain of dependencies.
Schedule pairwise_allgather(int n, int rank) {
  Schedule s{.blocks = n};
  for (int hop = 1; hop < n; ++hop) {
    const int from = (rank + n - hop) % n;
    s.send((rank + hop) % n, output(rank));
    s.receive(from, output(from));
  }
  return s;
}

// Meet, read every other rank's block out of its memory, meet again.
Schedule shm_allgather(int n, int rank) {
  Schedule s{.blocks = n};
  s.meet();
  for (int hop = 1; hop < n; ++hop) {
    const int from = (rank + hop) % n;
    s.pull(from, output(from), output(from));
  }
  s.meet();
  return s;
}

// One round of n-1 messages, S(n-1)/n bytes per rank; the sum is made in rank order.
Schedule pairwise_reduce_scatter(int n, int rank) {
  Schedule s{.blocks = 1, .scratch_copies = n};
  for (int hop = 1; hop < n; ++hop) {
    const int to = (rank + hop) % n, from = (rank + n - hop) % n;
    s.send(to, input(to));
    s.receive(from, {Buffer::scratch, from, 1});
  }
  s.fold(output(0), input(rank));
  return s;
}

// One round of n-1 messages, S(n-1)/n bytes per rank, shifted so that no rank is everybody's first.
Schedule pairwise_alltoall(int n, int rank) {
  Schedule s{.blocks = n};
  s.move(output(rank), input(rank));
  for (int hop = 1; hop < n; ++hop) {
    const int to = (rank + hop) % n, from = (rank + n - hop) % n;
    s.send(to, input(to));
    s.receive(from, output(from));
  }
  return s;
}

Schedule neighbours(const std::vector<int>& neighbours) {
  Schedule s{.blocks = static_cast<int>(neighbours.size())};
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    s.send(neighbours[i], input(static_cast<int>(i)));
    s.receive(neighbours[i], output(static_cast<int>(i)));
  }
  return s;
}

// Binomial tree: log2 n rounds of S bytes.
Schedule tree_broadcast(int n, int rank, int root) {
  Schedule s;
  const int self = relative(rank, root, n);
  int bit = 1;
  while (bit < n && (self & bit) == 0) bit *= 2;
  if (self != 0) s.receive(absolute(self - bit, root, n), output(0));
  for (bit /= 2; bit > 0; bit /= 2) {
    if (self + bit < n) s.send(absolute(self + bit, root, n), output(0));
  }
  return s;
}

// From neighbour to neighbour: n-1 rounds, but cut into segments all links work at a time, so that a long vector takes
// the time of S bytes.
Schedule chain_broadcast(int n, int rank, int root) {
  Schedule s;
  const int self = relative(rank, root, n);
  if (self > 0) s.receive(absolute(self - 1, root, n), output(0));
  if (self < n - 1) s.send(absolute(self + 1, root, n), output(0));
  return s;
}

// The root sends to all: 1 round, (n-1)S bytes out of the root.
Schedule star_broadcast(int n, int rank, int root) {
  Schedule s;
  if (rank != root) {
    s.receive(root, output(0));
    return s;
  }
  for (int hop = 1; hop < n; ++hop) s.send((root + hop) % n, output(0));
  return s;
}

// Meet, read the root's vector out of its memory, meet again.
Schedule shm_broadcast(int, int rank, int root) {
  Schedule s;
  s.meet();
  if (rank != root) s.pull(root, output(0), output(0));
  s.meet();
  return s;
}

// Binomial tree: log2 n rounds of S bytes. Inner ranks add in scratch, so that everybody's data stays as it was.
Schedule tree_reduce(int n, int rank, int root) {
  Schedule s{.blocks = 1, .scratch_copies = 1};
  const int self = relative(rank, root, n);
  const bool leaf = self % 2 == 1 || self + 1 >= n;
  const Blocks sum = self == 0 || leaf ? output(0) : Blocks{Buffer::scratch, 0, 1};
  if (self != 0 && !leaf) s.move(sum, output(0));
  for (int bit = 1; bit < n; bit *= 2) {
    if ((self & bit) != 0) {
      s.send(absolute(self - bit, root, n), sum);
      return s;
    }
    if (self + bit < n) s.reduce(absolute(self + bit, root, n), sum);
  }
  s.finish(output(0));
  return s;
}

// Everybody to the root, which adds its own and then the others' in rank order: 1 round, (n-1)S bytes into the root.
Schedule star_reduce(int n, int rank, int root) {
  Schedule s;
  if (rank != root) {
    s.send(root, output(0));
    return s;
  }
  for (int peer = 0; peer < n; ++peer) {
    if (peer != root) s.reduce(peer, output(0));
  }
  s.finish(output(0));
  return s;
}

Schedule star_gather(int n, int rank, int root) {
  Schedule s{.blocks = n};
  if (rank != root) {
    s.send(root, input(0));
    return s;
  }
  s.move(output(root), input(0));
  for (int hop = 1; hop < n; ++hop) {
    const int peer = (root + hop) % n;
    s.receive(peer, output(peer));
  }
  return s;
}

Schedule star_scatter(int n, int rank, int root) {
  Schedule s;
  if (rank != root) {
    s.receive(root, output(0));
    return s;
  }
  s.move(output(0), input(root));
  for (int hop = 1; hop < n; ++hop) {
    const int peer = (root + hop) % n;
    s.send(peer, input(peer));
  }
  return s;
}

// Dissemination barrier (Hensgen, Finkel & Manber 1988): ceil(log2 n) rounds of empty messages. Each round's message
// comes into the block that the next round sends, which is what makes the next wait for it; a block that is sent and
// received in the same round would make both sides wait for each other where sends are not buffered.
Schedule dissemination_barrier(int n, int rank) {
  Schedule s;
  for (int distance = 1; distance < n; distance *= 2) {
    s.send((rank + distance) % n, output(s.blocks - 1));
    s.receive((rank + n - distance) % n, output(s.blocks));
    ++s.blocks;
  }
  return s;
}

}  // namespace paceline::schedules
