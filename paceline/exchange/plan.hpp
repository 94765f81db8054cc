// Plan: how a job's work is distributed, as four independent answers. Parsed from what a user writes, checked against
// what there is.
//
//   Plan plan = parse_plan("where=ring what=dense");     // what is not said has its default
//   plan.set("when", "delayed:2");
//   check(plan);                                         // throws if the answers do not go together
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/collective/schedule.hpp"
#include "paceline/exchange/gossip_graph.hpp"
#include "paceline/sync/policy.hpp"

namespace paceline {

// Kinds of `when`: without their numbers.
enum class When { bsp, delayed, local, async, ssp, essp, softsync, automatic };
inline constexpr When kAllWhens[] = {When::bsp, When::delayed, When::local,    When::async,
                                     When::ssp, When::essp,    When::softsync, When::automatic};
// Kinds of `where`: every algorithm by name is an allreduce.
enum class Where { allreduce, gossip, hogwild, server };
inline constexpr Where kAllWheres[] = {Where::allreduce, Where::gossip, Where::hogwild, Where::server};

// Who waits for whom within an epoch.
enum class Coupling {
  all,         // all ranks meet after the same steps
  neighbours,  // each waits for some others in every step: never apart by more than the graph is wide
  none,        // nobody waits for anybody
};

struct Plan {
  std::string split = "data";       // who computes which part
  std::string when = {};            // when updates meet; not said: bsp, of hogwild async
  std::string where = "allreduce";  // which way they travel
  std::string what = "dense";       // what is sent

  // `key` may be an alias: sync, comm, compress. Throws Error{invalid} that lists the words there are.
  void set(std::string_view key, std::string_view word);

  When timing() const;
  Where route() const;
  // Workers step on their own and their parameters meet (Mixer); otherwise their gradients do (Exchange).
  bool parameters_meet() const;
  Coupling coupling() const;

  // Of `where`: automatic for "allreduce", and where it is no algorithm.
  Algorithm algorithm() const;
  // Of `where=gossip`.
  GossipGraph graph() const;
  // Of `where=hogwild`: a lock around each update.
  bool locked() const { return where == "hogwild:locked"; }
  // Of `where=server:N`: N; 0 for all others.
  int servers() const;
  // Of `when`, where servers keep it; of auto that with which it begins.
  Policy policy() const;
  // Of `when=auto`: the bound changes while training goes on (sync/adaptive_bound.hpp).
  bool adapts() const { return when == "auto"; }
  // Of `when`: how many steps late a gradient is applied; 0 for all but "delayed".
  int delay() const;
  // Of `when=local`: how many steps a worker makes on its own between two averages. 0 for all but "local".
  static constexpr std::int64_t kUntilTheEnd = std::numeric_limits<std::int64_t>::max();
  std::int64_t local_steps() const;

  // "split=data when=bsp where=allreduce what=dense", with everything that was not said.
  std::string text() const;

  bool operator==(const Plan& other) const { return text() == other.text(); }

 private:
  std::string said_or_implied_when() const;
};

// Pairs key=word, separated by spaces or commas.
Plan parse_plan(std::string_view text);

// Throws Error{invalid} if `when` and `where` do not go together, with the reason and what would.
void check(const Plan& plan);

// The words that a key may have, for help and errors; one that takes a number is shown with its least.
const std::vector<std::string>& plan_words(std::string_view key);

}  // namespace paceline
