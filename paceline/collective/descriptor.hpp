// Descriptor: what a rank says about the collective operation it is in. Its fingerprint travels with every message of
// the operation; the whole of it stands on the rank's board, where waiting peers compare it with their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/collective/schedule.hpp"
#include "paceline/core/clock.hpp"
#include "paceline/core/dtype.hpp"
#include "paceline/core/reduce.hpp"
#include "paceline/fabric/transport.hpp"

namespace paceline {

enum class Collective : std::uint8_t {
  allreduce,
  reduce_scatter,
  allgather,
  allgatherv,
  broadcast,
  reduce,
  gather,
  scatter,
  alltoall,
  alltoallv,
  barrier,
  neighbour_exchange,
};
inline constexpr Collective kLastCollective = Collective::neighbour_exchange;
std::string_view name(Collective op);

struct OpDescriptor {
  std::uint64_t context = 0;
  std::uint64_t sequence = 0;
  Collective op = Collective::barrier;
  DType dtype = DType::u8;
  ReduceOp reduce = ReduceOp::sum;
  Algorithm algorithm = Algorithm::automatic;
  std::int32_t root = -1;
  std::int64_t count = 0;   // of elements; the same on all ranks, or 0 where ranks may differ
  std::uint64_t shape = 0;  // hash of what else must agree, such as the counts of an allgatherv
  // The fingerprint of the group's operation before this one; of its members, before the first. So ranks that have
  // disagreed once, and were through with it before anybody could notice, disagree in all that follows.
  std::uint64_t history = 0;
  char name[24] = {};  // the user's name for it, cut

  void set_name(std::string_view full);
  // Never 0. The same on two ranks if and only if they called the same operation.
  std::uint64_t fingerprint() const;
  // As fingerprint, whatever came before.
  bool same_call(const OpDescriptor& other) const;
  // "allreduce #12 'fc1.weight' (sum, 1024 f32)"
  std::string text() const;
};

// A descriptor on the board, with when the rank entered and, if it has, left the operation.
struct Posted {
  OpDescriptor descriptor;
  TimePoint entered{};
  TimePoint left{};     // the clock's zero: still inside
  bool warned = false;  // has told the user that somebody is late for it

  bool inside() const { return left == TimePoint{}; }
};
BoardRecord to_record(const Posted& posted);
Posted from_record(const BoardRecord& record);

// The part of a descriptor that fits into four words: for notices that carry two of them.
void pack(const OpDescriptor& descriptor, std::uint64_t* words);
OpDescriptor unpack(const std::uint64_t* words);

}  // namespace paceline
