#include "paceline/collective/traffic.hpp"

#include <map>

#include "paceline/collective/communicator_state.hpp"

namespace paceline {

void Traffic::lend() {
  if (mover_ == nullptr) {
    const auto step = [this] { return !communicators.empty() && communicators.front()->step(); };
    mover_ = std::make_unique<Mover>(endpoint_, step);
  }
  mover_->lend();
}

void Traffic::own_from_mover() {
  mover_->recall();
  if (mover_->failure() != nullptr) std::rethrow_exception(mover_->failure());
}

namespace {

constexpr std::int64_t kNamesake = 0x6e616d6573616b65;  // marks contexts of ours; no split uses it by chance

// What is kept for as long as the Endpoint lives.
struct Kept {
  std::weak_ptr<Traffic> traffic;
  std::map<std::uint64_t, std::uint64_t> communicators;  // how many have been made, by their group's context
};

Kept& kept_by(Endpoint& endpoint) {
  std::shared_ptr<void>& attachment = endpoint.attachment();
  if (attachment == nullptr) attachment = std::make_shared<Kept>();
  return *static_cast<Kept*>(attachment.get());
}

}  // namespace

std::shared_ptr<Traffic> traffic_of(Endpoint& endpoint) {
  Kept& kept = kept_by(endpoint);
  auto traffic = kept.traffic.lock();
  if (traffic == nullptr) {
    traffic = std::make_shared<Traffic>(endpoint);
    kept.traffic = traffic;
  }
  return traffic;
}

Group next_namesake(Endpoint& endpoint, const Group& group) {
  const std::uint64_t earlier = kept_by(endpoint).communicators[group.context()]++;
  return earlier == 0 ? group : group.child(group.ranks(), earlier, kNamesake);
}

}  // namespace paceline
