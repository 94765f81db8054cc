#include "paceline/launch/store_client.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);
// A store that accepts a connection and then says nothing has forgotten it: try another.
constexpr Duration kHandshakePatience = std::chrono::seconds(5);

// For poll: rounded up, so that a deadline that is near does not become a busy loop.
int milliseconds_until(TimePoint deadline, TimePoint now) {
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<std::int64_t>(left, 60'000));
}

}  // namespace

StoreClient::StoreClient(const Address& address, const Terms& terms, TimePoint deadline, const Clock& clock)
    : name_(to_string(address)), address_(resolve(address)), terms_(terms), clock_(clock) {
  if (terms.secret.empty() && !is_loopback(address_)) {
    throw Error(Code::invalid, fmt::format("a store beyond this machine, at {}, is not used without a secret: set "
                                           "PACELINE_SECRET for all workers",
                                           name_));
  }
  for (Duration pause = kFirstPause; !try_connect(deadline); pause = std::min(2 * pause, kLongestPause)) {
    if (clock.now() >= deadline)
      throw Error(Code::timeout,
                  fmt::format("no store answers at {}; rank 0 of the job serves it, or paceline run", name_));
    std::this_thread::sleep_for(std::min(pause, deadline - clock.now()));
  }
}

std::string StoreClient::local_address() const { return ip_text(own_address(socket_.number()).get()); }

bool StoreClient::try_connect(TimePoint deadline) {
  socket_ = Descriptor(::socket(address_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) throw system_error("cannot create a socket", errno);
  const int on = 1;
  setsockopt(socket_.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(socket_.number(), address_.get(), address_.length) != 0 && errno != EINPROGRESS) return false;
  session_.emplace(terms_, random_bytes(kNonceBytes), name_);
  return handshake(std::min(deadline, clock_.after(kHandshakePatience)));
}

bool StoreClient::handshake(TimePoint deadline) {
  while (!session_->open()) {
    if (move(deadline) != Progress::moved) return false;
  }
  return true;
}

// Waits until the connection can move, and moves bytes.
StoreClient::Progress StoreClient::move(TimePoint deadline) {
  pollfd entry = {};
  entry.fd = socket_.number();
  entry.events = static_cast<short>(POLLIN | (session_->output().empty() ? 0 : POLLOUT));
  const int count = poll(&entry, 1, milliseconds_until(deadline, clock_.now()));
  if (count < 0 && errno != EINTR) throw system_error("cannot wait for the store", errno);
  if (count > 0 && !transfer(entry.revents)) return Progress::lost;
  if (count == 0 && clock_.now() >= deadline) return Progress::timeout;
  return Progress::moved;
}

bool StoreClient::transfer(short ready) {
  std::string& output = session_->output();
  if ((ready & POLLOUT) != 0 && !output.empty()) {
    const ssize_t sent = send(socket_.number(), output.data(), output.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) output.erase(0, static_cast<std::size_t>(sent));
  }
  if ((ready & (POLLIN | POLLHUP | POLLERR)) == 0) return true;
  std::array<char, 16 * 1024> buffer;
  const ssize_t got = recv(socket_.number(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  session_->receive({buffer.data(), static_cast<std::size_t>(got)});
  for (Reply& reply : session_->take_replies()) replies_[reply.id] = std::move(reply);
  return got > 0;
}

std::uint32_t StoreClient::ask(Ask ask, const std::string& key, const std::string& value) {
  if (key.empty() || key.size() > kMaxKeyBytes || value.size() > kMaxValueBytes) {
    throw Error(Code::invalid,
                fmt::format("the store takes keys of 1 to {} bytes and values of at most {}; this key has "
                            "{} and its value {}",
                            kMaxKeyBytes, kMaxValueBytes, key.size(), value.size()));
  }
  session_->request({ask, next_id_, key, value});
  return next_id_++;
}

Reply StoreClient::call(Ask ask, const std::string& key, const std::string& value, TimePoint deadline) {
  const std::uint32_t id = this->ask(ask, key, value);
  while (!replies_.contains(id)) {
    const Progress progress = move(deadline);
    if (replies_.contains(id)) break;
    if (progress == Progress::lost) lost();
    if (progress == Progress::timeout) {
      throw Error(Code::timeout, fmt::format("the store at {} gave no answer about '{}' in time", name_, key));
    }
  }
  Reply reply = std::move(replies_.extract(id).mapped());
  if (reply.answer == Answer::full) throw Error(Code::refused, fmt::format("the store at {} is full", name_));
  return reply;
}

void StoreClient::set(const std::string& key, const std::string& value, TimePoint deadline) {
  call(Ask::set, key, value, deadline);
}

bool StoreClient::claim(const std::string& key, const std::string& value, TimePoint deadline) {
  return call(Ask::claim, key, value, deadline).answer == Answer::done;
}

std::string StoreClient::get(const std::string& key, TimePoint deadline) {
  return call(Ask::get, key, {}, deadline).value;
}

std::vector<std::optional<std::string>> StoreClient::collect(const std::vector<std::string>& keys, TimePoint deadline) {
  std::vector<std::uint32_t> ids;
  for (const std::string& key : keys) ids.push_back(ask(Ask::get, key, {}));
  const auto answered = [&](std::uint32_t id) { return replies_.contains(id); };
  // The count of those that came first is kept, so that waiting for many does not look at all of them each time.
  std::size_t complete = 0;
  Progress progress = Progress::moved;
  while (progress != Progress::timeout) {
    while (complete < ids.size() && answered(ids[complete])) ++complete;
    if (complete == ids.size()) break;
    if (progress == Progress::lost) lost();
    progress = move(deadline);
  }
  std::vector<std::optional<std::string>> values;
  for (const std::uint32_t id : ids) {
    auto reply = replies_.extract(id);
    if (reply && reply.mapped().answer == Answer::full) {
      throw Error(Code::refused, fmt::format("the store at {} is full", name_));
    }
    values.push_back(reply ? std::optional(std::move(reply.mapped().value)) : std::nullopt);
  }
  return values;
}

void StoreClient::lost() const {
  throw Error(Code::peer_lost,
              fmt::format("the connection to the store at {} broke; its process may have ended", name_));
}

}  // namespace paceline
