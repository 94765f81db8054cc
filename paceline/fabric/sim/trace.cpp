#include "paceline/fabric/sim/trace.hpp"

#include <fmt/format.h>

#include "paceline/core/random.hpp"
#include "paceline/fabric/sim/options.hpp"

namespace paceline {
namespace {

const char* name(SimEvent event) {
  switch (event) {
    case SimEvent::put: return "put";
    case SimEvent::refused: return "refused";
    case SimEvent::lost: return "lost";
    case SimEvent::vanished: return "vanished";
    case SimEvent::held: return "held";
    case SimEvent::duplicate: return "duplicate";
    case SimEvent::frame: return "frame";
    case SimEvent::departure: return "departure";
    case SimEvent::alert: return "alert";
    case SimEvent::publish: return "publish";
    case SimEvent::wait: return "wait";
    case SimEvent::wake: return "wake";
    case SimEvent::pause: return "pause";
    case SimEvent::close: return "close";
    case SimEvent::death: return "death";
    case SimEvent::finish: return "finish";
    case SimEvent::stop: return "stop";
  }
  return "?";
}

const char* name(FrameKind kind) {
  switch (kind) {
    case FrameKind::eager: return "eager";
    case FrameKind::request: return "request";
    case FrameKind::grant: return "grant";
    case FrameKind::data: return "data";
    case FrameKind::cancel: return "cancel";
    case FrameKind::credit: return "credit";
    case FrameKind::stream: return "stream";
  }
  return "?";
}

bool about_a_frame(SimEvent event) {
  return event == SimEvent::put || event == SimEvent::refused || event == SimEvent::lost || event == SimEvent::held ||
         event == SimEvent::frame;
}

std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

std::string describe_time(TimePoint time) {
  return fmt::format("{:.3f} us", std::chrono::duration<double, std::micro>(time - kSimStart).count());
}

std::string describe(const SimTraceEntry& entry) {
  std::string text = fmt::format("{:>16}  rank {:<3} {:<9}", describe_time(entry.time), entry.rank, name(entry.event));
  if (entry.peer != kNoRank) text += fmt::format(" peer {:<3} #{}", entry.peer, entry.number);
  if (entry.event == SimEvent::publish) text += fmt::format(" slot {}", entry.number);
  if (about_a_frame(entry.event)) {
    const FrameHeader& header = entry.header;
    text += fmt::format("  {} {} bytes, context {:#x} tag {:#x} message {} offset {} total {} fingerprint {:#x}",
                        name(header.kind), header.bytes, header.context, header.tag, header.message, header.offset,
                        header.total, header.fingerprint);
  }
  return text;
}

namespace sim {

void Trace::add(const SimTraceEntry& entry) {
  const FrameHeader& header = entry.header;
  const std::uint64_t fields[] = {bits(entry.time.time_since_epoch().count()),
                                  static_cast<std::uint64_t>(entry.event),
                                  bits(entry.rank),
                                  bits(entry.peer),
                                  entry.number,
                                  static_cast<std::uint64_t>(header.kind),
                                  header.bytes,
                                  header.context,
                                  header.tag,
                                  header.fingerprint,
                                  header.total,
                                  header.message,
                                  header.offset};
  for (const std::uint64_t field : fields) hash_ = mix(hash_, field);

  if (ring_.size() < keep_) {
    ring_.push_back(entry);
  } else if (keep_ > 0) {
    ring_[count_ % keep_] = entry;
  }
  ++count_;
}

std::vector<SimTraceEntry> Trace::last() const {
  if (count_ <= keep_) return ring_;
  std::vector<SimTraceEntry> entries;
  entries.reserve(ring_.size());
  for (std::uint64_t i = count_; i < count_ + keep_; ++i) entries.push_back(ring_[i % keep_]);
  return entries;
}

}  // namespace sim
}  // namespace paceline
