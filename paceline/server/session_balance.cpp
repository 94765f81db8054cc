// A worker's part in sharing the load of sparse tables anew: see Note [Moving buckets] in bucket_share.hpp.
#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "paceline/core/error.hpp"
#include "paceline/server/session_state.hpp"

namespace paceline {

void check_sharing(const TableSpec& spec, const Policy& policy) {
  const Policy::Kind kind = policy.kind;
  if (spec.balance_every == 0 || kind == Policy::Kind::bsp || kind == Policy::Kind::ssp || kind == Policy::Kind::essp)
    return;
  throw Error(Code::invalid, fmt::format("table '{}' is to share its load anew every {} clocks, for which workers wait "
                                         "for each other; {} promises that they do not",
                                         spec.name, spec.balance_every, policy.text()));
}

RequestHeader Session::State::header_at(Verb verb, std::int64_t step) const {
  RequestHeader header = header_of(verb, 0, 0);
  header.clock = step;
  return header;
}

// Two round trips and a message that is not waited for. Not before the first step, which everybody knows.
void Session::State::share_load_anew(Table::State& table, std::int64_t step) {
  if (step == 0 || links.size() == 1) return;
  BucketOwners owners = owners_from(table, step, loads_of(table, step));
  const BucketOwners before = table.owners.empty() ? first_owners(static_cast<int>(links.size())) : table.owners;
  table.owners = std::move(owners);
  counters.moved_buckets += static_cast<std::uint64_t>(
      std::inner_product(before.begin(), before.end(), table.owners.begin(), 0, std::plus<>(), std::not_equal_to<>()));
  auto adopting = request(table);
  for (int server = 0; server < static_cast<int>(links.size()); ++server)
    ask(*adopting, server, header_at(Verb::adopt, step), encode_owners(table.owners));
  let_go(std::move(adopting));
}

std::vector<std::uint64_t> Session::State::loads_of(Table::State& table, std::int64_t step) {
  auto asking = request(table);
  for (int server = 0; server < static_cast<int>(links.size()); ++server)
    ask(*asking, server, header_at(Verb::loads, step));
  wait(*asking);
  std::vector<std::uint64_t> sum(kBuckets);
  for (const auto& flight : asking->flights) {
    const auto loads = decode_loads(parse_reply(flight->reply).sentence);
    if (!loads) throw Error(Code::refused, "a server's loads are malformed");
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) sum[bucket] += (*loads)[bucket];
  }
  return sum;
}

BucketOwners Session::State::owners_from(Table::State& table, std::int64_t step, std::span<const std::uint64_t> loads) {
  auto asking = request(table);
  const TableFlight& flight = ask(*asking, 0, header_at(Verb::plan, step), encode_loads(loads));
  wait(*asking);
  const auto owners = decode_owners(parse_reply(flight.reply).sentence, static_cast<int>(links.size()));
  if (!owners) throw Error(Code::refused, "a server's plan is malformed");
  return *owners;
}

}  // namespace paceline
