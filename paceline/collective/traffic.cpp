#include "paceline/collective/traffic.hpp"

#include "paceline/collective/mover.hpp"

namespace paceline {

void Traffic::take_back() noexcept {
  if (lent_to != nullptr) [[unlikely]]
    lent_to->recall();
}

void Traffic::own() {
  take_back();
  if (failure != nullptr) [[unlikely]]
    std::rethrow_exception(failure);
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
