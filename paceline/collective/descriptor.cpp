#include "paceline/collective/descriptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/random.hpp"

namespace paceline {
namespace {

std::uint64_t pack_kinds(const OpDescriptor& d) {
  return static_cast<std::uint64_t>(d.op) | static_cast<std::uint64_t>(d.dtype) << 8 |
         static_cast<std::uint64_t>(d.reduce) << 16 | static_cast<std::uint64_t>(d.algorithm) << 24 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(d.root)) << 32;
}

// What stands on a peer's board is only ever shown, but it must be a value that the names know.
template <class Enum>
Enum field(std::uint64_t word, int shift, Enum last) {
  const auto value = static_cast<std::uint8_t>(word >> shift);
  return value <= static_cast<std::uint8_t>(last) ? static_cast<Enum>(value) : last;
}

void unpack_kinds(std::uint64_t word, OpDescriptor& d) {
  d.op = field(word, 0, kLastCollective);
  d.dtype = field(word, 8, DType::i64);
  d.reduce = field(word, 16, ReduceOp::product);
  d.algorithm = field(word, 24, kLastAlgorithm);
  d.root = static_cast<std::int32_t>(word >> 32);
}

}  // namespace

std::string_view name(Collective op) {
  switch (op) {
    case Collective::allreduce: return "allreduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::allgather: return "allgather";
    case Collective::allgatherv: return "allgatherv";
    case Collective::broadcast: return "broadcast";
    case Collective::reduce: return "reduce";
    case Collective::gather: return "gather";
    case Collective::scatter: return "scatter";
    case Collective::alltoall: return "alltoall";
    case Collective::alltoallv: return "alltoallv";
    case Collective::barrier: return "barrier";
    case Collective::neighbour_exchange: return "neighbour_exchange";
  }
  return "?";
}

void OpDescriptor::set_name(std::string_view full) {
  std::memset(name, 0, sizeof name);
  std::copy_n(full.begin(), std::min(full.size(), sizeof name - 1), name);
  for (std::size_t i = sizeof name - 1; i < full.size(); ++i) shape = mix(shape, static_cast<std::uint8_t>(full[i]));
}

bool OpDescriptor::same_call(const OpDescriptor& other) const {
  return pack_kinds(*this) == pack_kinds(other) && count == other.count && shape == other.shape &&
         std::memcmp(name, other.name, sizeof name) == 0;
}

std::uint64_t OpDescriptor::fingerprint() const {
  std::uint64_t words[3];
  std::memcpy(words, name, sizeof words);
  std::uint64_t hash = mix(mix(context, sequence), history);
  for (const std::uint64_t word :
       {pack_kinds(*this), static_cast<std::uint64_t>(count), shape, words[0], words[1], words[2]}) {
    hash = mix(hash, word);
  }
  return hash == 0 ? 1 : hash;
}

std::string OpDescriptor::text() const {
  std::string text = fmt::format("{} #{}", paceline::name(op), sequence);
  if (name[0] != 0) text += fmt::format(" '{}'", name);
  if (op == Collective::barrier) return text;
  const bool reduces = op == Collective::allreduce || op == Collective::reduce || op == Collective::reduce_scatter;
  text += " (";
  if (reduces) text += fmt::format("{}, ", paceline::name(reduce));
  text += count > 0 ? fmt::format("{} {}", count, paceline::name(dtype)) : fmt::format("{}", paceline::name(dtype));
  if (root >= 0) text += fmt::format(", root {}", root);
  if (algorithm != Algorithm::automatic) text += fmt::format(", {}", paceline::name(algorithm));
  return text + ")";
}

BoardRecord to_record(const Posted& posted) {
  BoardRecord record{};
  record[0] = posted.descriptor.context;
  record[1] = posted.descriptor.sequence;
  record[2] = pack_kinds(posted.descriptor);
  record[3] = static_cast<std::uint64_t>(posted.descriptor.count);
  record[4] = posted.descriptor.shape;
  std::memcpy(&record[5], posted.descriptor.name, sizeof posted.descriptor.name);
  record[8] = static_cast<std::uint64_t>(posted.entered.time_since_epoch().count());
  record[9] = static_cast<std::uint64_t>(posted.left.time_since_epoch().count());
  record[10] = posted.descriptor.history;
  record[11] = posted.warned ? 1 : 0;
  return record;
}

Posted from_record(const BoardRecord& record) {
  Posted posted;
  posted.descriptor.context = record[0];
  posted.descriptor.sequence = record[1];
  unpack_kinds(record[2], posted.descriptor);
  posted.descriptor.count = static_cast<std::int64_t>(record[3]);
  posted.descriptor.shape = record[4];
  std::memcpy(posted.descriptor.name, &record[5], sizeof posted.descriptor.name);
  posted.descriptor.name[sizeof posted.descriptor.name - 1] = 0;
  posted.entered = TimePoint(Duration(static_cast<std::int64_t>(record[8])));
  posted.left = TimePoint(Duration(static_cast<std::int64_t>(record[9])));
  posted.descriptor.history = record[10];
  posted.warned = record[11] != 0;
  return posted;
}

void pack(const OpDescriptor& descriptor, std::uint64_t* words) {
  words[0] = pack_kinds(descriptor);
  words[1] = static_cast<std::uint64_t>(descriptor.count);
  std::memcpy(words + 2, descriptor.name, 16);
}

OpDescriptor unpack(const std::uint64_t* words) {
  OpDescriptor descriptor;
  unpack_kinds(words[0], descriptor);
  descriptor.count = static_cast<std::int64_t>(words[1]);
  std::memcpy(descriptor.name, words + 2, 16);
  return descriptor;
}

}  // namespace paceline
