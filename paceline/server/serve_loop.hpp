// ServeLoop: what a server does all day, whatever it is: takes requests from its workers, hands them over, sends the
// answers, notes who has gone. Ends when nobody is left. Runs on the thread that owns the Endpoint and sleeps when
// there is nothing to do.
//
// A Shard has handle, needs, lose, take_answers, give_back and deserted as ServerShard does; one that talks to others
// itself has `bool advance()` besides, which says whether anything happened; one that hands rows to other servers has
// take_rows and take_handovers.
#pragma once

#include <algorithm>
#include <chrono>
#include <list>
#include <utility>
#include <vector>

#include "paceline/fabric/endpoint.hpp"
#include "paceline/server/protocol.hpp"

namespace paceline {

template <class Shard>
class ServeLoop {
 public:
  ServeLoop(Endpoint& endpoint, const std::vector<Rank>& workers, Shard& shard, const std::vector<Rank>& servers = {})
      : endpoint_(endpoint), workers_(workers), servers_(servers), shard_(shard) {
    post();
  }

  void run() {
    while (!shard_.deserted()) {
      bool busy = false;
      if constexpr (requires { shard_.advance(); }) busy = shard_.advance();  // first: it may move messages itself
      const bool moved = endpoint_.progress();
      busy |= take_requests();
      busy |= note_departures();  // after the last words of who has gone
      send_answers();
      if (!moved && !busy) endpoint_.idle(kNever);
    }
    for (Sending& last : sending_) {
      while (!last.pending.test()) endpoint_.idle(kNever);
    }
  }

 private:
  struct Sending {
    std::vector<std::byte> message;
    Pending pending;
  };

  void post() { request_ = endpoint_.receive(kAnyRank, kRequestTag, message_); }

  bool take_requests() {
    bool any = false;
    while (request_.done()) {
      any = true;
      if (request_.error() == nullptr) {
        hand_in();
      }
      post();
    }
    return any;
  }

  // From workers and other servers; others have no business here.
  void hand_in() {
    const auto worker = std::find(workers_.begin(), workers_.end(), request_.source());
    if (worker != workers_.end())
      return shard_.handle(static_cast<int>(worker - workers_.begin()), std::move(message_));
    if constexpr (requires { shard_.take_handovers(); }) {
      const auto server = std::find(servers_.begin(), servers_.end(), request_.source());
      if (server != servers_.end()) shard_.take_rows(static_cast<int>(server - servers_.begin()), message_);
    }
  }

  // A worker that has closed its endpoint without a word makes no more updates either.
  bool note_departures() {
    if (seen_departures_ == endpoint_.departures()) return false;
    await_the_reason();
    take_requests();
    seen_departures_ = endpoint_.departures();
    for (const bool lost : {true, false}) {  // first those who died: others may have closed because of it
      for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
        const Rank rank = workers_[worker];
        if (endpoint_.gone(rank) && endpoint_.lost(rank) == lost)
          shard_.lose(static_cast<int>(worker), endpoint_.departure(rank).what());
      }
    }
    return true;
  }

  // Who closes while the others still need it does so for a reason, most likely that somebody died, and this server may
  // hear of that later: the connections of a dead process end one after the other.
  void await_the_reason() {
    const auto any = [this](auto holds) {
      for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
        if (holds(static_cast<int>(worker), workers_[worker])) return true;
      }
      return false;
    };
    const bool closed = any([this](int worker, Rank rank) { return endpoint_.gone(rank) && shard_.needs(worker); });
    const TimePoint until = endpoint_.clock().after(std::chrono::milliseconds(250));
    while (closed && !any([this](int, Rank rank) { return endpoint_.lost(rank); }) && endpoint_.clock().now() < until) {
      if (!endpoint_.progress()) endpoint_.idle(until);
    }
  }

  void send_answers() {
    std::erase_if(sending_, [this](Sending& sending) {
      if (!sending.pending.done()) return false;
      shard_.give_back(std::move(sending.message));
      return true;
    });
    for (auto& answer : shard_.take_answers())
      send(workers_[static_cast<std::size_t>(answer.worker)], {kServerContext, answer.sequence}, answer.message);
    if constexpr (requires { shard_.take_handovers(); }) {
      for (auto& handed : shard_.take_handovers())
        send(servers_[static_cast<std::size_t>(handed.server)], kRequestTag, handed.message);
    }
  }

  void send(Rank to, Tag tag, std::vector<std::byte>& message) {
    Sending& sending = sending_.emplace_back();
    sending.message = std::move(message);
    sending.pending = endpoint_.send(to, tag, sending.message);
  }

  Endpoint& endpoint_;
  const std::vector<Rank> workers_;
  const std::vector<Rank> servers_;
  Shard& shard_;
  std::vector<std::byte> message_;
  Pending request_;
  std::list<Sending> sending_;  // stable: messages must not move while they are sent
  std::uint64_t seen_departures_ = 0;
};

}  // namespace paceline
