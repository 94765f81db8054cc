#include "paceline/cli/doctor_survey.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>

#include "paceline/cli/doctor_devices.hpp"
#include "paceline/cli/doctor_host.hpp"
#include "paceline/cli/doctor_links.hpp"
#include "paceline/cli/doctor_memory.hpp"
#include "paceline/collective/bytes.hpp"
#include "paceline/collective/communicator.hpp"
#include "paceline/launch/protocol.hpp"

namespace paceline {
namespace {

using std::chrono::milliseconds;
constexpr Duration kQuietSpan = milliseconds(250);
constexpr Duration kCopySpan = milliseconds(40);

// What one rank knows; that of the first rank of a host speaks for the host.
struct Share {
  HostReport host;
  double copy_all = 0;
  std::vector<LinkReport> links;
  Json clocks = Json::array();  // [rank, ahead, error], by rank 0
};

// How many cores others keep at work while this job sleeps.
double others_at_work(Communicator& world, const Clock& clock) {
  const Cores cores = allowed_cores();
  world.barrier();
  const TimePoint start = clock.now();
  const double before = busy_seconds(cores);
  std::this_thread::sleep_for(kQuietSpan);
  const double busy = busy_seconds(cores) - before;
  const double spent = seconds(clock.now() - start);
  world.barrier();
  return std::min(busy / spent, static_cast<double>(cores.size()));  // ticks are coarse
}

// Hosts that are containers of one machine share its memory and take turns. Returns this rank's turn, and how many
// there are.
std::pair<int, int> turns(Communicator& world, const std::vector<int>& hosts, const std::string& machine) {
  const auto machines = allgather(world, machine);
  std::map<std::string, std::vector<int>> hosts_of;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    auto& list = hosts_of[machines[rank]];
    if (std::find(list.begin(), list.end(), hosts[rank]) == list.end()) list.push_back(hosts[rank]);
  }
  const auto& own = hosts_of[machine];
  const int host = hosts[static_cast<std::size_t>(world.rank())];
  std::size_t most = 0;
  for (const auto& [name, list] : hosts_of) most = std::max(most, list.size());
  return {static_cast<int>(std::find(own.begin(), own.end(), host) - own.begin()), static_cast<int>(most)};
}

void measure_memory(Communicator& world, Job& job, Share& own) {
  const auto [turn, count] = turns(world, job.endpoint().facts().hosts, own.host.machine);
  for (int now = 0; now < count; ++now) {
    std::optional<MemoryCopy> copy;
    if (now == turn) copy.emplace(own.host.available_bytes, job.local_size());
    world.barrier();
    if (copy && job.local_rank() == 0) own.host.copy_one = copy->measure(kCopySpan);
    world.barrier();
    if (copy) own.copy_all = copy->measure(kCopySpan);
  }
}

// Of a link that was measured before, the better counts.
void keep_better(const LinkReport& link, std::vector<LinkReport>& links) {
  for (LinkReport& known : links) {
    if (known.from != link.from || known.to != link.to) continue;
    known.gbps = std::max(known.gbps, link.gbps);
    known.latency_us = std::min(known.latency_us, link.latency_us);
    return;
  }
  links.push_back(link);
}

void measure_round(Communicator& world, const std::vector<RankPair>& round, Share& own) {
  const int self = world.rank();
  world.barrier();
  for (const auto& [leader, other] : round) {
    if (self == other) measure_link(world.endpoint(), leader, false);
    if (self != leader) continue;
    const LinkTiming timing = measure_link(world.endpoint(), other, true);
    keep_better({leader, other, timing.latency_us, timing.there}, own.links);
    keep_better({other, leader, timing.latency_us, timing.back}, own.links);
    if (self == 0) own.clocks.push_back({other, timing.clock_ahead, timing.clock_error});
  }
}

void measure_links(Communicator& world, const LinkPlan& plan, Share& own) {
  for (const auto& round : plan.rounds) measure_round(world, round, own);
  std::vector<LinkReport> links;
  for (const std::string& text : allgather(world, text_of(Json(own.links)))) {
    for (const Json& link : Json::parse(text)) links.push_back(link.get<LinkReport>());
  }
  for (const RankPair& pair : doubtful_pairs(links, world.endpoint().facts().hosts)) measure_round(world, {pair}, own);
  world.barrier();
}

std::string to_text(const Share& own) {
  return text_of(Json{{"host", own.host}, {"copy_all", own.copy_all}, {"links", own.links}, {"clocks", own.clocks}});
}

void add_clocks(const Json& clocks, Endpoint& endpoint, DoctorReport& report) {
  for (HostReport& host : report.hosts) {
    const int first = host.ranks.front();
    host.steady_ahead = first == 0 ? 0 : seconds(endpoint.clock_offset(first));
    for (const Json& clock : clocks) {
      const bool better = host.clock_error == 0 || clock[2] < host.clock_error;
      if (clock[0] != first || !better) continue;
      host.clock_ahead = clock[1];
      host.clock_error = clock[2];
    }
  }
}

// Hosts of one name, as parts of a machine that stand for hosts have it: "a/0", "a/1".
void tell_apart(std::vector<HostReport>& hosts) {
  std::map<std::string, int> count, seen;
  for (const HostReport& host : hosts) ++count[host.name];
  for (HostReport& host : hosts) {
    const std::string name = host.name;
    if (count[name] > 1) host.name += "/" + std::to_string(seen[name]++);
  }
}

// Of all ranks' texts. Hosts come in the order of their first ranks.
DoctorReport merge(const std::vector<std::string>& texts, Endpoint& endpoint) {
  DoctorReport report{.version = this_build().build, .cores = endpoint.facts().cores, .hosts = {}, .links = {}};
  std::map<int, std::size_t> place;  // of a host's number in report.hosts
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const Json json = Json::parse(texts[rank]);
    const auto [at, is_new] = place.try_emplace(endpoint.facts().hosts[rank], report.hosts.size());
    if (is_new) report.hosts.push_back(json.at("host").get<HostReport>());
    HostReport& host = report.hosts[at->second];
    host.ranks.push_back(static_cast<int>(rank));
    host.copy_all += json.at("copy_all").get<double>();
    for (const Json& link : json.at("links")) report.links.push_back(link.get<LinkReport>());
  }
  tell_apart(report.hosts);
  add_clocks(Json::parse(texts[0]).at("clocks"), endpoint, report);
  return report;
}

Share look_around(Job& job, const std::vector<std::string>& names) {
  Share own{.host = look_at_host(), .links = {}};
  const Transport::Facts& facts = job.endpoint().facts();
  const auto rank = static_cast<std::size_t>(job.rank());
  own.host.name = rank < names.size() ? names[rank] : own.host.system_name;
  own.host.shares_memory = facts.mapped_memory && job.local_size() > 1;
  const char* asked = std::getenv("PACELINE_DEVICE");
  name_device(own.host, facts.network, asked == nullptr ? "" : asked);
  return own;
}

}  // namespace

std::optional<DoctorReport> survey(Job& job, const std::vector<std::string>& names) {
  Communicator world(job.endpoint(), job.group());
  Share own = look_around(job, names);
  const LinkPlan plan = plan_links(job.endpoint().facts().hosts);
  own.host.busy_cores = others_at_work(world, job.endpoint().clock());
  measure_memory(world, job, own);
  measure_links(world, plan, own);
  const auto texts = allgather(world, to_text(own));
  if (job.rank() != 0) return std::nullopt;
  DoctorReport report = merge(texts, job.endpoint());
  report.every_pair = plan.every_pair;
  return report;
}

}  // namespace paceline
