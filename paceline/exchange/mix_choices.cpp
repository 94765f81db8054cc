#include "paceline/exchange/mix_choices.hpp"

#include <fmt/format.h>

#include <cmath>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

void check_server(const Plan& plan, const MixChoices& choices) {
  if (!(choices.compensation >= 0 && std::isfinite(choices.compensation)))
    throw Error(Code::invalid, fmt::format("delay compensation is 0 or more, not {}", choices.compensation));
  if (choices.push_every < 1 || choices.fetch_every < 1)
    throw Error(Code::invalid, "steps between two pushes and between two reads are 1 or more");
  const bool periods = choices.push_every > 1 || choices.fetch_every > 1;
  const bool stale = choices.divide_by_staleness || choices.compensation > 0;
  if (plan.route() != Where::server) {
    if (periods || stale || choices.apply != MixChoices::Apply::automatic)
      throw Error(Code::invalid,
                  fmt::format("who applies updates, how often they are pushed and what staleness does to "
                              "them is asked of servers, which {} has not; use where=server:1",
                              plan.text()));
    return;
  }
  if (periods && plan.timing() != When::async)
    throw Error(Code::invalid, fmt::format("with when={} a worker pushes and reads in every step; use when=async",
                                           plan.policy().text()));
  if (stale && plan.timing() != When::async && plan.timing() != When::softsync)
    throw Error(Code::invalid, fmt::format("with when={} staleness is bounded, not answered for; use when=async",
                                           plan.policy().text()));
  if (stale && choices.apply == MixChoices::Apply::worker)
    throw Error(Code::invalid, "staleness is taken into account where servers apply gradients, not changes");
}

}  // namespace

MixChoices::Apply parse_apply(std::string_view text) {
  if (text == "auto") return MixChoices::Apply::automatic;
  if (text == "server") return MixChoices::Apply::server;
  if (text == "worker") return MixChoices::Apply::worker;
  throw Error(Code::invalid, fmt::format("'{}' does not say who applies updates: auto, server or worker", text));
}

void check(const Plan& plan, const MixChoices& choices) {
  const double slow_momentum = choices.slow_momentum;
  const double participate = choices.participate;
  if (!(slow_momentum >= 0 && slow_momentum < 1))
    throw Error(Code::invalid, fmt::format("slow momentum is 0 or more and below 1, not {}", slow_momentum));
  if (!(participate > 0 && participate <= 1))
    throw Error(Code::invalid, fmt::format("the share that takes part is above 0 and at most 1, not {}", participate));
  check_server(plan, choices);
  if (plan.timing() == When::local) return;
  const char* const chosen = slow_momentum > 0 ? "slow momentum"
                             : participate < 1 ? "a share that takes part"
                                               : nullptr;
  if (chosen != nullptr)
    throw Error(Code::invalid, fmt::format("{} is for rounds of several steps, which {} has not; use when=local:8",
                                           chosen, plan.text()));
}

}  // namespace paceline
