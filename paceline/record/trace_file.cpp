#include "paceline/record/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

constexpr int kStepTrack = 0;

// A file that appears under its name only when it is complete; what was left of an attempt is removed.
class PartFile {
 public:
  explicit PartFile(const std::string& path)
      : path_(path), part_(path + ".part"), file_(std::fopen(part_.c_str(), "wb")) {
    if (file_ == nullptr) fail();
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!finished_) std::remove(part_.c_str());
  }

  void write(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
  }

  // A full disk may show only when the last bytes leave the buffer.
  void finish() {
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!closed || std::rename(part_.c_str(), path_.c_str()) != 0) fail();
    finished_ = true;
  }

 private:
  [[noreturn]] void fail() const {
    const int reason = errno;  // before anything else touches it
    throw system_error(fmt::format("cannot write the trace {}", path_), reason);
  }

  const std::string path_, part_;
  std::FILE* file_;
  bool finished_ = false;
};

double microseconds(Duration span) { return std::chrono::duration<double, std::micro>(span).count(); }

TimePoint earliest(const std::vector<RankTrace>& ranks) {
  TimePoint first = kNever;
  for (const RankTrace& rank : ranks) {
    for (const TraceEvent& event : rank.events) first = std::min(first, event.start);
  }
  return first;
}

// A host's name comes from outside: whatever bytes it has, the file stays JSON.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string metadata(std::string_view what, Rank rank, int track, const std::string& arguments) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", what, rank, track, arguments);
}

// Reductions overlap, and a track shows only what nests: each goes to the first track that is free.
class Tracks {
 public:
  int place(const TraceEvent& event) {
    const auto free = std::find_if(ends_.begin(), ends_.end(), [&](TimePoint end) { return end <= event.start; });
    const auto track = free - ends_.begin();
    if (free == ends_.end()) ends_.emplace_back();
    ends_[static_cast<std::size_t>(track)] = event.start + std::max(event.length, Duration(0));
    return kStepTrack + 1 + static_cast<int>(track);
  }
  int count() const { return static_cast<int>(ends_.size()); }

 private:
  std::vector<TimePoint> ends_;
};

class TraceWriter {
 public:
  TraceWriter(PartFile& file, TimePoint zero) : file_(file), zero_(zero) {}

  void rank(const RankTrace& trace) {
    std::vector<TraceEvent> events = trace.events;
    std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    const std::string title = fmt::format("rank {} · {} · pid {}", trace.rank, trace.host, trace.pid);
    add(metadata("process_name", trace.rank, kStepTrack, "\"name\":" + quoted(title)));
    add(metadata("process_sort_index", trace.rank, kStepTrack, fmt::format("\"sort_index\":{}", trace.rank)));
    add(metadata("thread_name", trace.rank, kStepTrack, R"("name":"step")"));
    Tracks buckets;
    for (const TraceEvent& event : events) {
      this->event(trace.rank, event.activity == Activity::reduction ? buckets.place(event) : kStepTrack, event);
    }
    for (int i = 0; i < buckets.count(); ++i) {
      add(metadata("thread_name", trace.rank, kStepTrack + 1 + i, R"("name":"buckets")"));
    }
  }

 private:
  void event(Rank rank, int track, const TraceEvent& event) {
    std::string label(name(event.activity));
    if (event.activity == Activity::reduction) label = fmt::format("bucket {}", event.bucket);
    add(fmt::format(R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
                    R"("args":{{"step":{},"bucket":{}}}}})",
                    label, name(event.activity), rank, track, microseconds(event.start - zero_),
                    microseconds(std::max(event.length, Duration(0))), event.step, event.bucket));
  }

  void add(const std::string& entry) {
    file_.write(first_ ? "\n" : ",\n");
    file_.write(entry);
    first_ = false;
  }

  PartFile& file_;
  const TimePoint zero_;
  bool first_ = true;
};

}  // namespace

void write_trace(const std::string& path, const std::vector<RankTrace>& ranks) {
  PartFile file(path);
  file.write(R"({"displayTimeUnit":"ms","traceEvents":[)");
  TraceWriter writer(file, earliest(ranks));
  for (const RankTrace& rank : ranks) writer.rank(rank);
  file.write("\n]}\n");
  file.finish();
}

}  // namespace paceline
