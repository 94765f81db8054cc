#include "paceline/launch/rank_threads.hpp"

#include "paceline/fabric/quiet_thread.hpp"

namespace paceline {

RankThreads::RankThreads(std::vector<std::unique_ptr<Endpoint>> endpoints, const Body& body) {
  for (auto& endpoint : endpoints) {
    Member& member = *members_.emplace_back(std::make_unique<Member>());
    member.endpoint = std::move(endpoint);
    member.thread = quiet_thread([&member, body] {
      try {
        body(*member.endpoint);
      } catch (...) {
        member.failure = std::current_exception();
      }
      member.endpoint->close();
    });
  }
}

void RankThreads::join() {
  for (auto& member : members_) {
    if (member->thread.joinable()) member->thread.join();
  }
  for (const auto& member : members_) {
    if (member->failure != nullptr) std::rethrow_exception(member->failure);
  }
}

}  // namespace paceline
