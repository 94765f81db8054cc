#include "paceline/fabric/endpoint.hpp"

#include <algorithm>
#include <utility>

#include "paceline/fabric/endpoint_state.hpp"

namespace paceline {

// ---- Pending

Pending::Pending(Endpoint* endpoint, Operation* operation) : endpoint_(endpoint), status_(operation) {}

const Operation& Pending::operation() const { return *static_cast<const Operation*>(status_); }

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    if (status_ != nullptr) drop();
    endpoint_ = std::exchange(other.endpoint_, nullptr);
    status_ = std::exchange(other.status_, nullptr);
  }
  return *this;
}

void Pending::drop() noexcept { endpoint_->state_->drop(static_cast<Operation*>(std::exchange(status_, nullptr))); }

bool Pending::test() {
  if (!done()) endpoint_->progress();
  return done();
}

void Pending::wait() { wait_until(kNever); }

void Pending::wait_until(TimePoint deadline) {
  while (!done()) {
    if (endpoint_->progress()) continue;
    if (deadline != kNever && endpoint_->clock().now() >= deadline) {
      throw Error(Code::timeout, operation().peer, "the deadline of a message has passed");
    }
    endpoint_->idle(deadline);
  }
  if (error() != nullptr) throw Error(*error());
}

Rank Pending::source() const { return status_ == nullptr ? kNoRank : operation().peer; }
std::size_t Pending::bytes() const { return status_ == nullptr ? 0 : operation().moved; }

// ---- Endpoint

Endpoint::Endpoint(std::unique_ptr<Transport> transport) : state_(std::make_unique<State>(std::move(transport))) {}
Endpoint::~Endpoint() { close(); }

Rank Endpoint::rank() const { return state_->facts.rank; }
int Endpoint::size() const { return state_->facts.size; }
const Transport::Facts& Endpoint::facts() const { return state_->facts; }
const Clock& Endpoint::clock() const { return state_->transport->clock(); }
Duration Endpoint::clock_offset(Rank peer) const { return state_->transport->clock_offset(peer); }
std::string Endpoint::describe(Rank peer) const { return state_->describe(peer); }

Pending Endpoint::send(Rank to, Tag tag, std::span<const std::byte> bytes, std::uint64_t fingerprint) {
  return Pending(this, state_->send(to, tag, bytes, fingerprint));
}

Pending Endpoint::receive(Rank from, Tag tag, std::span<std::byte> into, ReceiveOptions options) {
  return Pending(this, state_->receive(from, tag, into, nullptr, options));
}

Pending Endpoint::receive(Rank from, Tag tag, std::vector<std::byte>& into) {
  return Pending(this, state_->receive(from, tag, {}, &into, {}));
}

bool Endpoint::progress() { return state_->progress(); }
void Endpoint::idle(TimePoint until) { state_->transport->wait(until); }
int Endpoint::descriptor() const { return state_->transport->descriptor(); }
std::optional<TimePoint> Endpoint::arm() { return state_->transport->arm(); }
void Endpoint::retire(std::uint64_t context) { state_->retire(context); }

void Endpoint::publish(std::size_t slot, const BoardRecord& record, Wake wake) {
  state_->transport->publish(slot, record, wake);
}
std::optional<BoardRecord> Endpoint::read_board(Rank peer, std::size_t slot) const {
  return state_->transport->read_board(peer, slot);
}
std::uint64_t Endpoint::alerts() const { return state_->alerts; }

bool Endpoint::gone(Rank peer) const { return state_->gone(peer); }
bool Endpoint::lost(Rank peer) const { return state_->lost(peer); }
bool Endpoint::unreachable(Rank peer) const { return state_->unreachable(peer); }
Error Endpoint::departure(Rank peer) const { return state_->departure(peer); }
std::uint64_t Endpoint::departures() const { return state_->departures; }

Arena Endpoint::allocate(std::size_t bytes) {
  const SharedRegion region = state_->transport->allocate(std::max<std::size_t>(bytes, 1));
  state_->arenas.push_back(region);
  return Arena(this, {region.id, region.memory.first(bytes)});
}

std::optional<Endpoint::Location> Endpoint::locate(const void* data, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(data);
  for (const SharedRegion& region : state_->arenas) {
    const std::byte* start = region.memory.data();
    if (first < start || first > start + region.memory.size()) continue;
    const auto offset = static_cast<std::size_t>(first - start);
    if (bytes <= region.memory.size() - offset) return Location{region.id, offset};
  }
  return std::nullopt;
}

std::optional<std::span<std::byte>> Endpoint::map(Rank peer, std::uint64_t region) {
  return state_->transport->map(peer, region);
}

const TrafficCounters& Endpoint::counters() const { return state_->counters; }
std::uint64_t Endpoint::bytes_sent_to(Rank peer) const { return state_->sent_to(peer); }
std::shared_ptr<void>& Endpoint::attachment() { return state_->attachment; }

void Endpoint::count_direct(std::size_t bytes) { state_->counters.bytes_direct += bytes; }

void Endpoint::close() {
  if (std::exchange(state_->closed, true)) return;
  state_->transport->close();
}

// ---- Arena

Arena::Arena(Arena&& other) noexcept
    : endpoint_(std::exchange(other.endpoint_, nullptr)), region_(std::exchange(other.region_, {})) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(endpoint_, other.endpoint_);
  std::swap(region_, other.region_);
  return *this;
}

Arena::~Arena() {
  if (endpoint_ == nullptr) return;
  std::erase_if(endpoint_->state_->arenas, [this](const SharedRegion& region) { return region.id == region_.id; });
  endpoint_->state_->transport->release(region_.id);
}

}  // namespace paceline
