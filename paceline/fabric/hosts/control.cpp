#include "paceline/fabric/hosts/control.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "paceline/fabric/hosts/control_meeting.hpp"
#include "paceline/fabric/quiet_thread.hpp"

namespace paceline {
namespace {

// A board that was asked for is not asked for again before.
constexpr Duration kAskAgain = std::chrono::milliseconds(10);
constexpr int kClockProbes = 4;
// Milliseconds between looks whether the owner has taken the last frames of a peer that has left.
constexpr int kLook = 5;

// After the hellos of control_meeting.cpp everything has this one form. Little endian, as all hosts of a job are.
struct Message {
  enum class Kind : std::uint32_t {
    board = 1,  // slot `slot` of my board is `record`
    alert,      // all that there was on my board has been sent, and is worth a look
    ask,        // send me your board; `number` is what my clock shows
    answer,     // I have; `number` is back, `clock` is what my clock shows
    leave,      // I go, having sent you `number` frames
    farewell,   // answer to leave: I have them, or do not want them
  };
  Kind kind = Kind::board;
  std::uint32_t slot = 0;
  std::uint64_t number = 0;
  std::int64_t clock = 0;
  BoardRecord record = {};
};
static_assert(sizeof(Message) == 152);

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

// The kernel asks the other one, and gives up when there was no answer for `silence`.
void watch_over(int socket, Duration silence) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
  const int whole_seconds = std::max<int>(1, static_cast<int>(milliseconds / 3000));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, whole_seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, whole_seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(milliseconds));
}

}  // namespace

// ---- the thread

class Control::Loop {
 public:
  Loop(Control& control, Options options, std::vector<Descriptor> sockets)
      : control_(control), options_(std::move(options)), peers_(sockets.size()) {
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    wake_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!epoll_.valid() || !wake_.valid()) throw system_error("cannot create an epoll descriptor", errno);
    watch(wake_.number(), EPOLL_CTL_ADD, EPOLLIN, kWakeKey);
    for (std::size_t peer = 0; peer < sockets.size(); ++peer) {
      if (!sockets[peer].valid()) continue;
      peers_[peer].socket = std::move(sockets[peer]);
      peers_[peer].present = true;
      watch_over(peers_[peer].socket.number(), options_.silence);
      watch(peers_[peer].socket.number(), EPOLL_CTL_ADD, EPOLLIN, peer);
      ask(peers_[peer]);
    }
    thread_ = quiet_thread([this](const std::stop_token& stop) { run(stop); });
  }

  ~Loop() {
    thread_.request_stop();
    wake();
  }

  void push_board() {
    {
      const std::lock_guard lock(mutex_);
      push_wanted_ = true;
    }
    wake();
  }

  std::optional<BoardRecord> read_board(Rank rank, std::size_t slot) {
    bool ask_now = false;
    std::optional<BoardRecord> record;
    {
      const std::lock_guard lock(mutex_);
      Peer& peer = peers_[static_cast<std::size_t>(rank)];
      record = peer.board[slot];
      const TimePoint now = clock_.now();
      ask_now = peer.present && !peer.ask_wanted && now - peer.asked >= kAskAgain;
      if (ask_now) peer.ask_wanted = true;
    }
    if (ask_now) wake();
    return record;
  }

  void take_leave(const std::vector<std::uint64_t>& frames_sent) {
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t peer = 0; peer < peers_.size(); ++peer) peers_[peer].frames_to_it = frames_sent[peer];
      leave_ = Leave::to_be_told;
    }
    wake();
  }

  bool leave_taken() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.present || peer.farewell; });
  }

  News collect() {
    const std::lock_guard lock(mutex_);
    control_.fresh_.store(false, std::memory_order_seq_cst);
    eventfd_t ignored;
    eventfd_read(control_.to_owner_.number(), &ignored);
    return std::exchange(news_, {});
  }

  Duration clock_offset(Rank peer) const {
    const std::lock_guard lock(mutex_);
    return peers_[static_cast<std::size_t>(peer)].offset;
  }

 private:
  static constexpr std::uint64_t kWakeKey = ~std::uint64_t{0};

  using Board = std::array<std::optional<BoardRecord>, kBoardSlots>;

  struct Peer {
    // The thread's alone.
    Descriptor socket;
    std::vector<std::byte> in;
    std::vector<std::byte> out;
    Board arriving;  // slot by slot; it counts when it is complete
    int probes = 0;
    Duration best_round_trip = Duration::max();
    std::optional<std::uint64_t> frames_from_it;  // it has taken leave, and waits for our farewell
    // Behind the mutex.
    bool present = false;
    bool left = false;      // it has taken leave
    bool farewell = false;  // we have, and it has let us go
    bool ask_wanted = false;
    TimePoint asked{};
    std::uint64_t frames_to_it = 0;
    Board board;
    Duration offset{};
  };

  void wake() { eventfd_write(wake_.number(), 1); }

  void watch(int descriptor, int operation, std::uint32_t events, std::uint64_t key) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = key;
    epoll_ctl(epoll_.number(), operation, descriptor, &event);
  }

  void run(const std::stop_token& stop) {
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) write_to(peer);  // what was asked at the start
    while (!stop.stop_requested()) {
      epoll_event events[16];
      const int ready = epoll_wait(epoll_.number(), events, 16, frames_awaited() ? kLook : -1);
      for (int i = 0; i < ready; ++i) {
        if (events[i].data.u64 == kWakeKey) {
          eventfd_t ignored;
          eventfd_read(wake_.number(), &ignored);
        } else {
          read_from(events[i].data.u64);
        }
      }
      do_what_is_wanted();
      for (std::size_t peer = 0; peer < peers_.size(); ++peer) write_to(peer);
    }
  }

  // A peer that has left waits until its last frames are taken. The owner does not tell us: it has better things to do.
  bool frames_awaited() const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return peer.socket.valid() && peer.frames_from_it.has_value(); });
  }

  void do_what_is_wanted() {
    const std::lock_guard lock(mutex_);
    const bool push = std::exchange(push_wanted_, false), leave = leave_ == Leave::to_be_told;
    if (leave) leave_ = Leave::told;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = peers_[i];
      if (!peer.socket.valid()) continue;
      if (push) {
        add_board(peer);
        add(peer, {.kind = Message::Kind::alert});
      }
      if (std::exchange(peer.ask_wanted, false)) ask(peer);
      if (leave) add(peer, {.kind = Message::Kind::leave, .number = peer.frames_to_it});
      const std::uint64_t taken = control_.frames_[i].load(std::memory_order_acquire);
      if (peer.frames_from_it && (leave_ != Leave::none || taken >= *peer.frames_from_it)) {
        peer.frames_from_it.reset();
        add(peer, {.kind = Message::Kind::farewell});
      }
    }
  }

  void ask(Peer& peer) {
    peer.asked = clock_.now();
    add(peer,
        {.kind = Message::Kind::ask, .number = static_cast<std::uint64_t>(peer.asked.time_since_epoch().count())});
  }

  // As it was at one moment: the owner may be writing, and what it wrote later must not be seen without what it wrote
  // before. It does not write for ever.
  Board own_board() const {
    const auto read = [&] {
      Board board;
      for (std::size_t slot = 0; slot < kBoardSlots; ++slot) board[slot] = options_.own_board(slot);
      return board;
    };
    Board board = read();
    for (int tries = 0; tries < 100; ++tries) {
      Board again = read();
      if (again == board) break;
      board = again;
    }
    return board;
  }

  void add_board(Peer& peer) {
    const Board board = own_board();
    for (std::uint32_t slot = 0; slot < kBoardSlots; ++slot) {
      if (board[slot]) add(peer, {.kind = Message::Kind::board, .slot = slot, .record = *board[slot]});
    }
  }

  static void add(Peer& peer, const Message& message) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&message);
    peer.out.insert(peer.out.end(), bytes, bytes + sizeof message);
  }

  void write_to(std::size_t index) {
    Peer& peer = peers_[index];
    if (!peer.socket.valid() || peer.out.empty()) return;
    const ssize_t sent = ::send(peer.socket.number(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) peer.out.erase(peer.out.begin(), peer.out.begin() + sent);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return lose(index, errno);
    watch(peer.socket.number(), EPOLL_CTL_MOD, peer.out.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT, index);
  }

  void read_from(std::size_t index) {
    Peer& peer = peers_[index];
    if (!peer.socket.valid()) return;
    std::array<std::byte, 64 * sizeof(Message)> buffer;
    const ssize_t got = ::recv(peer.socket.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lose(index, got == 0 ? 0 : errno);
    peer.in.insert(peer.in.end(), buffer.begin(), buffer.begin() + got);
    std::size_t used = 0;
    for (; peer.in.size() - used >= sizeof(Message); used += sizeof(Message)) {
      Message message;
      std::memcpy(&message, peer.in.data() + used, sizeof message);
      if (!take(index, message)) return lose(index, 0);
    }
    peer.in.erase(peer.in.begin(), peer.in.begin() + static_cast<std::ptrdiff_t>(used));
  }

  // False for what no peer of ours sends.
  bool take(std::size_t index, const Message& message) {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[index];
    switch (message.kind) {
      case Message::Kind::board:
        if (message.slot >= kBoardSlots) return false;
        peer.arriving[message.slot] = message.record;
        return true;
      case Message::Kind::alert:
        peer.board = peer.arriving;
        news_.alert = true;
        tell_owner();
        return true;
      case Message::Kind::ask:
        add_board(peer);
        add(peer, {.kind = Message::Kind::answer, .number = message.number, .clock = count(clock_.now())});
        return true;
      case Message::Kind::answer:
        peer.board = peer.arriving;
        learn_clock(peer, message);
        if (++peer.probes < kClockProbes) ask(peer);
        return true;
      case Message::Kind::leave:
        if (std::exchange(peer.left, true)) return false;
        peer.frames_from_it = message.number;
        news_.leaving.emplace_back(static_cast<Rank>(index), message.number);
        tell_owner();
        return true;
      case Message::Kind::farewell:
        peer.farewell = true;
        tell_owner();
        return true;
    }
    return false;
  }

  static std::int64_t count(TimePoint time) { return time.time_since_epoch().count(); }

  void learn_clock(Peer& peer, const Message& answer) {
    const std::int64_t now = count(clock_.now()), then = static_cast<std::int64_t>(answer.number);
    const Duration round_trip(now - then);
    if (round_trip.count() < 0 || round_trip >= peer.best_round_trip) return;
    peer.best_round_trip = round_trip;
    peer.offset = Duration(answer.clock - (then + (now - then) / 2));
  }

  void lose(std::size_t index, int error) {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[index];
    watch(peer.socket.number(), EPOLL_CTL_DEL, 0, 0);
    peer.socket = Descriptor();
    peer.present = false;
    const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
    const Departure how = silent ? Departure::unreachable : Departure::lost;
    if (!peer.left) news_.lost.emplace_back(static_cast<Rank>(index), how);
    tell_owner();
  }

  void tell_owner() {
    control_.fresh_.store(true, std::memory_order_seq_cst);
    eventfd_write(control_.to_owner_.number(), 1);
  }

  Control& control_;
  const Options options_;
  SteadyClock clock_;
  Descriptor epoll_;
  Descriptor wake_;
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  News news_;
  bool push_wanted_ = false;
  enum class Leave { none, to_be_told, told };
  Leave leave_ = Leave::none;
  std::jthread thread_;  // last: it ends before what it uses
};

// ---- Control

Control::Control(ControlDoor door, Options options)
    : frames_(options.addresses.size()), to_owner_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!to_owner_.valid()) throw system_error("cannot create an eventfd", errno);
  std::vector<Descriptor> sockets = meet_peers(options, door, strangers_);
  loop_ = std::make_unique<Loop>(*this, std::move(options), std::move(sockets));
}

Control::~Control() = default;

void Control::push_board() { loop_->push_board(); }
std::optional<BoardRecord> Control::read_board(Rank peer, std::size_t slot) { return loop_->read_board(peer, slot); }
void Control::take_leave(const std::vector<std::uint64_t>& frames_sent) { loop_->take_leave(frames_sent); }
bool Control::leave_taken() const { return loop_->leave_taken(); }
Duration Control::clock_offset(Rank peer) const { return loop_->clock_offset(peer); }

std::optional<Control::News> Control::collect() {
  if (!has_news()) return std::nullopt;
  return loop_->collect();
}

}  // namespace paceline
