#include "paceline/launch/extend.hpp"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/packing.hpp"
#include "paceline/fabric/quiet_thread.hpp"
#include "paceline/fabric/thread/thread.hpp"
#include "paceline/launch/job_state.hpp"

namespace paceline {
namespace {

constexpr Tag kCards{0x7061636565787464, 0};  // "paceextd"

std::string pack(const std::vector<std::string>& texts) {
  Packer packer;
  for (const std::string& text : texts) packer.number(static_cast<std::uint32_t>(text.size())).bytes(text);
  return packer.take();
}

// What every rank of the job has to say, by rank.
std::vector<std::string> tell_all(Endpoint& endpoint, const std::string& own) {
  const auto size = static_cast<std::size_t>(endpoint.size());
  std::vector<std::vector<std::byte>> heard(size);
  std::vector<Pending> pending;
  for (Rank peer = 0; peer < endpoint.size(); ++peer) {
    if (peer == endpoint.rank()) continue;
    pending.push_back(endpoint.receive(peer, kCards, heard[static_cast<std::size_t>(peer)]));
    pending.push_back(endpoint.send(peer, kCards, std::as_bytes(std::span(own))));
  }
  for (Pending& one : pending) one.wait();
  std::vector<std::string> texts;
  for (const auto& bytes : heard) texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  texts[static_cast<std::size_t>(endpoint.rank())] = own;
  return texts;
}

// Each rank has told what belongs to the ranks that it holds: itself, then the further ones in their order.
std::vector<std::string> by_new_rank(const std::vector<std::string>& told, int more) {
  const std::size_t size = told.size();
  std::vector<std::string> all(size + static_cast<std::size_t>(more));
  for (std::size_t holder = 0; holder < size; ++holder) {
    Unpacker reader(told[holder]);
    for (std::size_t rank = holder; rank < all.size(); rank += size)
      all[rank] = reader.bytes(reader.number<std::uint32_t>());
    if (!reader.complete())
      throw Error(Code::mismatch, static_cast<Rank>(holder),
                  "ranks of one job asked for different numbers of further ranks");
  }
  return all;
}

std::vector<Newcomer> newcomers_of(const MeetOptions& options, int more, TimePoint deadline) {
  std::vector<Newcomer> newcomers;
  for (Rank rank = options.rank; rank < options.size + more; rank += options.size) {
    MeetOptions one = options;
    one.rank = rank;
    one.size = options.size + more;
    one.deadline = deadline;
    newcomers.emplace_back(one);
  }
  return newcomers;
}

// Side by side: each meets all others, also those of this process.
std::vector<std::unique_ptr<Endpoint>> connect(std::vector<Newcomer>& newcomers, bool many_hosts,
                                               const std::vector<std::string>& network_cards) {
  std::vector<std::unique_ptr<Endpoint>> endpoints(newcomers.size());
  std::vector<std::exception_ptr> failures(newcomers.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < newcomers.size(); ++i) {
      threads.push_back(quiet_thread([&, i] {
        try {
          endpoints[i] = many_hosts ? newcomers[i].connect(network_cards) : newcomers[i].connect();
        } catch (...) {
          failures[i] = std::current_exception();
        }
      }));
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  return endpoints;
}

// They have met already, in join.
std::unique_ptr<Endpoint> take_servers(int servers, int wanted, std::unique_ptr<Endpoint>& with_servers) {
  if (wanted != servers)
    throw Error(Code::invalid, fmt::format("this job has {} server process{} but {} servers were asked for", servers,
                                           servers == 1 ? "" : "es", wanted));
  if (with_servers == nullptr)
    throw Error(Code::invalid, "the server processes of this job are in use already, and serve only once");
  return std::move(with_servers);
}

Extension divide(std::vector<std::unique_ptr<Endpoint>> endpoints) {
  Extension extension;
  extension.own = std::move(endpoints.front());
  for (std::size_t i = 1; i < endpoints.size(); ++i) extension.more.push_back(std::move(endpoints[i]));
  return extension;
}

}  // namespace

Extension extend(Job& job, int more) {
  CHECK(more >= 0, "a job is extended by ranks");
  if (job.state_->servers > 0) return {take_servers(job.state_->servers, more, job.state_->with_servers), {}};
  if (job.size() == 1) return divide(make_thread_endpoints(1 + more));
  Job::State& state = *job.state_;
  auto newcomers = newcomers_of(state.meeting, more, state.clock.after(state.meeting.timeout));
  std::vector<std::string> told;
  for (const Newcomer& newcomer : newcomers) told.push_back(encode(newcomer.card()));
  std::vector<Card> cards;
  for (const std::string& text : by_new_rank(tell_all(job.endpoint(), pack(told)), more))
    cards.push_back(decode_card(static_cast<Rank>(cards.size()), text));

  std::vector<int> hosts = job.endpoint().facts().hosts;
  for (int i = 0; i < more; ++i) hosts.push_back(hosts[static_cast<std::size_t>(i % job.size())]);
  bool many_hosts = false;
  for (Newcomer& newcomer : newcomers) many_hosts = newcomer.learn(cards, hosts);
  std::vector<std::string> network_cards;
  if (many_hosts) {
    told.clear();
    for (Newcomer& newcomer : newcomers) told.push_back(newcomer.open_network(state.local_address));
    network_cards = by_new_rank(tell_all(job.endpoint(), pack(told)), more);
  }
  return divide(connect(newcomers, many_hosts, network_cards));
}

}  // namespace paceline
