#include "paceline/collective/traffic.hpp"

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

std::shared_ptr<Traffic> traffic_of(Endpoint& endpoint) {
  auto traffic = std::static_pointer_cast<Traffic>(endpoint.attachment().lock());
  if (traffic == nullptr) {
    traffic = std::make_shared<Traffic>(endpoint);
    endpoint.attachment() = traffic;
  }
  return traffic;
}

}  // namespace paceline
