#include <algorithm>
#include <bit>
#include <utility>

#include "paceline/collective/schedules.hpp"

namespace paceline::schedules {
namespace {

Blocks scratch(const Schedule& schedule, int copy, int first, int count = 1) {
  return {Buffer::scratch, copy * schedule.blocks + first, count};
}

// Butterfly and halving-doubling want a power of two. The first `extra` pairs of ranks become one member each: the odd
// rank of a pair hands its vector to the even one before, and gets the result after (MPICH's way, Thakur et al. 2005).
struct PowerOfTwo {
  int members;
  int extra;

  explicit PowerOfTwo(int n)
      : members(static_cast<int>(std::bit_floor(static_cast<unsigned>(n)))), extra(n - members) {}
  bool is_guest(int rank) const { return rank < 2 * extra && rank % 2 == 1; }
  bool is_host(int rank) const { return rank < 2 * extra && rank % 2 == 0; }
  int member_of(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  int rank_of(int member) const { return member < extra ? 2 * member : member + extra; }
};

Schedule guest(int rank, int blocks) {
  Schedule s{.blocks = blocks};
  s.send(rank - 1, output(0, blocks));
  s.receive(rank - 1, output(0, blocks));
  return s;
}

}  // namespace

// Whole vectors passed to the neighbour: n-1 rounds, S bytes each, (n-1)S per rank. What one would write first; kept as
// the baseline. The vectors are kept apart and folded in rank order at the end, so all ranks get the same bits.
Schedule naive(int n, int rank) {
  Schedule s{.blocks = 1, .scratch_copies = n};
  const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
  for (int round = 0; round < n - 1; ++round) {
    const int out = (rank + n - round) % n, in = (previous + n - round) % n;
    s.send(next, out == rank ? output(0) : scratch(s, out, 0));
    s.receive(previous, scratch(s, in, 0));
  }
  s.fold(output(0), output(0));
  return s;
}

// Ring allreduce (Patarasuk & Yuan 2009): 2(n-1) rounds, 2S(n-1)/n bytes per rank, which is the least possible.
Schedule ring(int n, int rank) {
  Schedule s{.blocks = n};
  const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
  for (int round = 0; round < 2 * (n - 1); ++round) {
    const int out = (rank + 2 * n - round) % n, in = (out + n - 1) % n;
    if (round == n - 1) s.finish(output(out));
    s.send(next, output(out));
    if (round < n - 1) {
      s.reduce(previous, output(in));
    } else {
      s.receive(previous, output(in));
    }
  }
  if (n == 1) s.finish(output(0));
  return s;
}

// Recursive doubling (the butterfly of the fast Fourier transform): log2 n rounds, S bytes each, S log2 n per rank. Two
// more rounds if n is no power of two. Best for small vectors.
Schedule butterfly(int n, int rank) {
  const PowerOfTwo members(n);
  if (members.is_guest(rank)) return guest(rank, 1);
  Schedule s{.blocks = 1, .scratch_copies = 1};
  if (members.is_host(rank)) s.reduce(rank + 1, output(0));
  const int self = members.member_of(rank);
  for (int distance = 1; distance < members.members; distance *= 2) {
    const int peer = members.rank_of(self ^ distance);
    s.send(peer, output(0));
    s.receive(peer, scratch(s, 0, 0));
    s.add(output(0), scratch(s, 0, 0), peer < rank);  // in rank order, so that both sides get the same bits
  }
  s.finish(output(0));
  if (members.is_host(rank)) s.send(rank + 1, output(0));
  return s;
}

// Recursive halving, then recursive doubling (Rabenseifner 2004): 2 log2 n rounds, 2S(n-1)/n bytes per rank for a power
// of two; otherwise two rounds and up to 2S bytes more.
Schedule halving_doubling(int n, int rank) {
  const PowerOfTwo members(n);
  if (members.is_guest(rank)) return guest(rank, members.members);
  Schedule s{.blocks = members.members};
  if (members.is_host(rank)) s.reduce(rank + 1, output(0, members.members));
  const int self = members.member_of(rank);
  int first = 0, count = members.members;
  std::vector<Step> back;
  for (int distance = members.members / 2; distance > 0; distance /= 2) {
    const int peer = members.rank_of(self ^ distance);
    count /= 2;
    const bool upper = (self & distance) != 0;
    const int keep = upper ? first + count : first, give = upper ? first : first + count;
    s.send(peer, output(give, count));
    s.reduce(peer, output(keep, count));
    back.push_back({Action::receive, peer, output(give, count), {}, false});
    back.push_back({Action::send, peer, output(keep, count), {}, false});
    first = keep;
  }
  s.finish(output(first));
  s.steps.insert(s.steps.end(), back.rbegin(), back.rend());
  if (members.is_host(rank)) s.send(rank + 1, output(0, members.members));
  return s;
}

// Binomial tree to rank 0 and back: 2 log2 n rounds of S bytes. Few messages; the root's children share nothing.
Schedule tree(int n, int rank) {
  Schedule s{.blocks = 1};
  std::vector<Step> down;
  for (int bit = 1; bit < n; bit *= 2) {
    if ((rank & bit) != 0) {
      s.send(rank - bit, output(0));
      s.receive(rank - bit, output(0));
      break;
    }
    if (rank + bit >= n) continue;
    s.reduce(rank + bit, output(0));
    down.push_back({Action::send, rank + bit, output(0), {}, false});
  }
  if (rank == 0) s.finish(output(0));
  s.steps.insert(s.steps.end(), down.rbegin(), down.rend());
  return s;
}

// The parameter server's pattern: everybody to rank 0, which adds in rank order and answers all: 2 rounds, (n-1)S into
// and out of the root.
Schedule star(int n, int rank) {
  Schedule s{.blocks = 1};
  if (rank != 0) {
    s.send(0, output(0));
    s.receive(0, output(0));
    return s;
  }
  for (int peer = 1; peer < n; ++peer) s.reduce(peer, output(0));
  s.finish(output(0));
  for (int peer = 1; peer < n; ++peer) s.send(peer, output(0));
  return s;
}

// Pairwise reduce-scatter summed in rank order, then pairwise allgather: the ring's 2S(n-1)/n bytes in two rounds of
// n-1 messages, and the same bits whatever the bucket size, the transport or the timing.
Schedule ordered(int n, int rank) {
  Schedule s{.blocks = n, .scratch_copies = n, .scratch_block = rank};
  // Starting with the next rank, so that not all send to rank 0 at a time.
  for (int hop = 1; hop < n; ++hop) {
    const int to = (rank + hop) % n, from = (rank + n - hop) % n;
    s.send(to, output(to));
    s.receive(from, scratch(s, from, rank));
  }
  s.fold(output(rank), output(rank));
  for (int hop = 1; hop < n; ++hop) {
    const int to = (rank + hop) % n, from = (rank + n - hop) % n;
    s.send(to, output(rank));
    s.receive(from, output(from));
  }
  return s;
}

// All ranks' vectors lie in memory that all can reach: meet, each sums its block straight out of all of them in rank
// order and writes it to all, meet again. No message but the two meetings; S(n-1)/n bytes read, as many written, per
// rank.
Schedule shm(int n, int rank) {
  Schedule s{.blocks = n};
  s.meet();
  s.direct(output(rank));
  s.meet();
  return s;
}

}  // namespace paceline::schedules
