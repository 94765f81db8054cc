#include "paceline/launch/store_server.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <array>
#include <cerrno>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kListenerId = 0;
constexpr std::uint64_t kTimerId = 1;
constexpr std::uint64_t kFirstConnectionId = 2;

// One call of progress() does a bounded amount of work, so that a storm of strangers cannot starve the owner's loop.
constexpr int kEventsPerProgress = 64;
constexpr int kAcceptsPerProgress = 64;
constexpr std::size_t kReadBytes = 16 * 1024;
// A client that does not read its replies is first not read from, then dropped.
constexpr std::size_t kOutputPause = 1024 * 1024;
constexpr std::size_t kOutputLimit = 32 * 1024 * 1024;
constexpr auto kTick = std::chrono::milliseconds(100);

bool try_watch(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(epoll, operation, fd, &event) == 0;
}

void watch(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t id) {
  if (!try_watch(epoll, operation, fd, events, id)) throw system_error("cannot watch a socket of the store", errno);
}

bool out_of_resources(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS || error_number == ENOMEM;
}

}  // namespace

StoreServer::StoreServer(StoreServerOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), next_id_(kFirstConnectionId) {
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_.valid() || !timer_.valid()) throw system_error("cannot create the store's event queue", errno);
  listen();
  watch(epoll_.number(), EPOLL_CTL_ADD, listener_.number(), EPOLLIN, kListenerId);
  watch(epoll_.number(), EPOLL_CTL_ADD, timer_.number(), EPOLLIN, kTimerId);
}

void StoreServer::listen() {
  const std::string name = to_string(options_.address);
  SocketAddress address = resolve(options_.address);
  if (options_.terms.secret.empty() && !is_loopback(address)) {
    throw Error(Code::invalid,
                fmt::format("the store may not listen at {} without a secret, because that address can be "
                            "reached from other machines: set PACELINE_SECRET for all workers",
                            name));
  }
  listener_ = Descriptor(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid()) throw system_error("cannot create the store's socket", errno);
  const int on = 1;
  setsockopt(listener_.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener_.number(), address.get(), address.length) != 0 || ::listen(listener_.number(), SOMAXCONN) != 0) {
    throw system_error(fmt::format("the store cannot listen at {}", name), errno);
  }
  options_.address.port = port_of(own_address(listener_.number()));
}

void StoreServer::progress() {
  std::array<epoll_event, kEventsPerProgress> events;
  const int count = epoll_wait(epoll_.number(), events.data(), kEventsPerProgress, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    switch (event.data.u64) {
      case kListenerId: accept_some(); break;
      case kTimerId: on_timer(); break;
      default: on_connection(event.data.u64, event.events);
    }
  }
}

void StoreServer::accept_some() {
  for (int i = 0; i < kAcceptsPerProgress && !paused_; ++i) {
    Descriptor socket(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      add_stranger(std::move(socket));
    } else if (errno == EAGAIN) {
      return;
    } else if (out_of_resources(errno) && !make_room()) {
      // The listener stays readable, so that going on would spin.
      pause_listening();
    }
  }
}

// Gives up the oldest stranger's descriptor; false if there is none to give up.
bool StoreServer::make_room() {
  if (strangers_.empty()) return false;
  drop(strangers_.begin()->first);
  return true;
}

void StoreServer::add_stranger(Descriptor socket) {
  if (strangers_.size() >= options_.max_strangers) make_room();
  const int on = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket.number(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  const Id id = next_id_++;
  const int fd = socket.number();
  Connection connection{std::move(socket), ServerSession(options_.terms, random_bytes(kNonceBytes)),
                        clock_.after(options_.proof_timeout), EPOLLIN};
  if (!try_watch(epoll_.number(), EPOLL_CTL_ADD, fd, EPOLLIN, id))
    return;  // no memory for a stranger: it may come again
  strangers_.emplace(id, std::move(connection));
  if (strangers_.size() == 1) start_timer();
}

void StoreServer::pause_listening() {
  paused_ = true;
  watch(epoll_.number(), EPOLL_CTL_MOD, listener_.number(), 0, kListenerId);
  start_timer();
}

// Runs only while there is something to time: an idle store never wakes its owner.
void StoreServer::start_timer() {
  itimerspec tick = {};
  tick.it_value.tv_nsec = std::chrono::nanoseconds(kTick).count();
  timerfd_settime(timer_.number(), 0, &tick, nullptr);
}

void StoreServer::on_timer() {
  std::uint64_t expirations = 0;
  if (read(timer_.number(), &expirations, sizeof expirations) < 0) return;
  const TimePoint now = clock_.now();
  while (!strangers_.empty() && strangers_.begin()->second.expires <= now) make_room();
  if (paused_) watch(epoll_.number(), EPOLL_CTL_MOD, listener_.number(), EPOLLIN, kListenerId);
  paused_ = false;
  if (!strangers_.empty()) start_timer();
}

void StoreServer::on_connection(Id id, std::uint32_t events) {
  Connection* connection = find(id);
  if (connection == nullptr) return;  // dropped by an earlier event of this round
  const bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
  if (readable && !read_from(*connection)) return drop(id);
  if (connection->session.state() == ServerSession::State::open) {
    if (auto newcomer = strangers_.extract(id)) members_.insert(std::move(newcomer));
    serve(id, *connection);
  }
  flush(id, *connection);
}

// False when the other side is gone.
bool StoreServer::read_from(Connection& connection) {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(connection.socket.number(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  connection.session.receive({buffer.data(), static_cast<std::size_t>(got)});
  return got > 0;
}

void StoreServer::serve(Id id, Connection& connection) {
  for (StoreRequest& request : connection.session.take_requests()) {
    for (const Store::Delivery& delivery : store_.handle(id, std::move(request))) {
      Connection* to = find(delivery.to);
      if (to == nullptr) continue;  // dropped by the delivery before this one
      to->session.reply(delivery.reply);
      if (delivery.to != id) flush(delivery.to, *to);
    }
  }
}

// Sends what can be sent now. False when the connection was dropped: it broke, is over, or does not read its replies.
bool StoreServer::flush(Id id, Connection& connection) {
  std::string& output = connection.session.output();
  std::size_t sent = 0;
  while (sent < output.size()) {
    const ssize_t count = send(connection.socket.number(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return drop(id), false;
    sent += static_cast<std::size_t>(count);
  }
  output.erase(0, sent);
  const bool over = connection.session.state() == ServerSession::State::closed && output.empty();
  if (over || output.size() > kOutputLimit) return drop(id), false;
  const bool read_on = output.size() < kOutputPause && connection.session.state() != ServerSession::State::closed;
  const std::uint32_t interest = (read_on ? EPOLLIN : 0u) | (output.empty() ? 0u : EPOLLOUT);
  if (interest != connection.interest) watch(epoll_.number(), EPOLL_CTL_MOD, connection.socket.number(), interest, id);
  connection.interest = interest;
  return true;
}

void StoreServer::drop(Id id) {
  if (strangers_.erase(id) == 0 && members_.erase(id) != 0) store_.forget(id);
}

StoreServer::Connection* StoreServer::find(Id id) {
  for (Connections* connections : {&strangers_, &members_}) {
    if (const auto found = connections->find(id); found != connections->end()) return &found->second;
  }
  return nullptr;
}

}  // namespace paceline
