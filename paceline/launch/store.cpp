#include "paceline/launch/store.hpp"

#include <utility>

namespace paceline {

std::vector<Store::Delivery> Store::handle(SessionId from, StoreRequest request) {
  return request.ask == Ask::get ? get(from, request) : put(from, std::move(request));
}

std::vector<Store::Delivery> Store::put(SessionId from, StoreRequest request) {
  const auto found = values_.find(request.key);
  if (found != values_.end() && request.ask == Ask::claim) return {{from, {Answer::taken, request.id, {}}}};
  const std::size_t before = found == values_.end() ? 0 : request.key.size() + found->second.size();
  const std::size_t after = bytes_ - before + request.key.size() + request.value.size();
  if (after > limits_.bytes) return {{from, {Answer::full, request.id, {}}}};
  bytes_ = after;

  std::vector<Delivery> deliveries{{from, {Answer::done, request.id, {}}}};
  if (auto waited = waiters_.extract(request.key)) {
    waiting_ -= waited.mapped().size();
    for (const Waiter& waiter : waited.mapped()) {
      deliveries.push_back({waiter.session, {Answer::value, waiter.id, request.value}});
    }
  }
  values_[std::move(request.key)] = std::move(request.value);
  return deliveries;
}

std::vector<Store::Delivery> Store::get(SessionId from, const StoreRequest& request) {
  if (const auto found = values_.find(request.key); found != values_.end()) {
    return {{from, {Answer::value, request.id, found->second}}};
  }
  if (waiting_ == limits_.waiting) return {{from, {Answer::full, request.id, {}}}};
  waiters_[request.key].push_back({from, request.id});
  ++waiting_;
  return {};
}

void Store::forget(SessionId session) {
  for (auto entry = waiters_.begin(); entry != waiters_.end();) {
    waiting_ -= std::erase_if(entry->second, [session](const Waiter& waiter) { return waiter.session == session; });
    entry = entry->second.empty() ? waiters_.erase(entry) : std::next(entry);
  }
}

}  // namespace paceline
