// For tests of the ServerShard alone: workers that write requests byte by byte and read the answers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/server/shard.hpp"

namespace paceline::server_test {

// A ServerShard with workers whose shared memory is a few floats each, as region 1.
class ShardBench {
 public:
  explicit ShardBench(const Policy& policy, int workers = 1)
      : memory(static_cast<std::size_t>(workers), std::vector<float>(64)),
        shard_({.place = {.workers = workers}, .policy = policy},
               [this](int worker, std::uint64_t region) { return map(worker, region); }),
        sequences_(static_cast<std::size_t>(workers)) {}

  RequestHeader next(int worker, Verb verb) {
    return {.verb = verb, .sequence = ++sequences_[static_cast<std::size_t>(worker)]};
  }
  static std::vector<std::byte> message(const RequestHeader& header, std::span<const std::uint64_t> keys = {},
                                        std::span<const float> values = {}, std::string_view note = {}) {
    std::vector<std::byte> bytes;
    bytes.reserve(sizeof header + keys.size_bytes() + values.size_bytes() + note.size());
    append_header(bytes, header);
    append(bytes, keys);
    append(bytes, values);
    append(bytes, std::span<const char>(note));
    return bytes;
  }
  // Hands it over and keeps what comes back.
  void say(int worker, std::vector<std::byte> bytes) {
    shard_.handle(worker, std::move(bytes));
    collect();
  }
  void lose(int worker, const std::string& how) {
    shard_.lose(worker, how);
    collect();
  }

  std::uint64_t open(int worker, const TableSpec& spec) {
    const RequestHeader header = next(worker, Verb::open);
    say(worker, message(header, {}, {}, encode(spec)));
    return header.sequence;
  }
  std::uint64_t push(int worker, RowRange rows, const std::vector<float>& values, std::int64_t clock = 0) {
    RequestHeader header = range(worker, Verb::push, rows);
    header.clock = clock;
    say(worker, message(header, {}, values));
    return header.sequence;
  }
  std::uint64_t pull(int worker, RowRange rows, std::int64_t required = 0) {
    RequestHeader header = range(worker, Verb::pull, rows);
    header.required = required;
    say(worker, message(header));
    return header.sequence;
  }
  void clock(int worker, std::int64_t clock) {
    RequestHeader header = next(worker, Verb::clock);
    header.clock = clock;
    say(worker, message(header));
  }
  void leave(int worker) { say(worker, message(next(worker, Verb::leave))); }
  RequestHeader range(int worker, Verb verb, RowRange rows) {
    RequestHeader header = next(worker, verb);
    header.rows = RowNames::range;
    header.first = rows.first;
    header.count = rows.size();
    return header;
  }

  // How often a request was answered.
  std::size_t answers(int worker, std::uint64_t sequence) const { return answers_.count({worker, sequence}); }
  TableReply reply(int worker, std::uint64_t sequence) const {
    const auto found = answers_.find({worker, sequence});
    return found == answers_.end() ? TableReply{} : parse_reply(found->second);
  }
  std::vector<float> values(int worker, std::uint64_t sequence) const {
    const auto values = reply(worker, sequence).values;
    return {values.begin(), values.end()};
  }
  std::size_t all_answers() const { return answers_.size(); }
  ServerShard& shard() { return shard_; }

  std::vector<std::vector<float>> memory;  // of each worker

 private:
  std::optional<std::span<std::byte>> map(int worker, std::uint64_t region) {
    if (region != 1) return std::nullopt;
    return std::as_writable_bytes(std::span(memory[static_cast<std::size_t>(worker)]));
  }
  void collect() {
    for (ServerShard::Answer& answer : shard_.take_answers())
      answers_.emplace(std::pair(answer.worker, answer.sequence), std::move(answer.message));
  }

  ServerShard shard_;
  std::vector<std::uint64_t> sequences_;
  std::multimap<std::pair<int, std::uint64_t>, std::vector<std::byte>> answers_;
};

}  // namespace paceline::server_test
