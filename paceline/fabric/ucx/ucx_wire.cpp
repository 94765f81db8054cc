#include "paceline/fabric/ucx/ucx_wire.hpp"

#include <fmt/format.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline::ucx {
namespace {

constexpr unsigned kFrameMessage = 17;  // the number of our kind of active message
// UCX's TCP hands a message that fits into one of its segments straight from the segment to us.
// (Keys of transports go without their prefix, unlike the variables of the environment.)
constexpr const char* kSegmentBytes = "68k";
// Of UCX's progress, inside one of ours.
constexpr int kRounds = 64;

// What precedes a frame's payload on the wire. Little endian, as all hosts of a job are.
struct WireHeader {
  Token token;
  std::uint64_t number;  // of this frame between these two ranks, from 0
  std::int32_t from;
  std::uint32_t reserved;
  FrameHeader frame;
};
static_assert(sizeof(WireHeader) == kHeaderBytes);

class UcxWire;

// A frame that UCX is sending. Recycled, so that the same few stay in the cache.
struct Parcel {
  UcxWire* owner = nullptr;
  int to = -1;
  std::array<std::byte, sizeof(WireHeader) + kMaxPayload> bytes;
};

void check(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw Error(Code::system, fmt::format("{}: {}", what, ucs_status_string(status)));
}

class Config {
 public:
  Config() { check(ucp_config_read(nullptr, nullptr, &config_), "cannot read the configuration of UCX"); }
  ~Config() { ucp_config_release(config_); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  void set(const char* name, const std::string& value) {
    check(ucp_config_modify(config_, name, value.c_str()), fmt::format("UCX does not take {}={}", name, value));
  }
  const ucp_config_t* get() const { return config_; }

 private:
  ucp_config_t* config_ = nullptr;
};

class UcxWire final : public Wire {
 public:
  explicit UcxWire(const WireOptions& options);
  ~UcxWire() override;

  std::string address() const override { return address_; }
  void connect(const ConnectOptions& options) override;
  bool put(Rank to, const FrameHeader& header, const std::byte* payload) override;
  bool progress(WireSink& sink) override;
  bool arm() override;
  int descriptor() const override { return descriptor_; }
  bool flushed() const override { return in_flight_ == 0; }
  std::size_t max_payload() const override { return kMaxPayload; }
  std::string describe() const override { return description_; }
  std::uint64_t strangers() const override { return strangers_; }

 private:
  struct Link {
    ucp_ep_h endpoint = nullptr;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    int in_flight = 0;
    bool refused = false;  // a put found no room
    enum class Health { well, failed, reported } health = Health::well;
    UcxWire* wire = nullptr;
    Rank peer = kNoRank;
    std::map<std::uint64_t, std::vector<std::byte>> early;  // frames that overtook another, by number
  };

  void open_context(const WireOptions& options);
  void open_worker(const WireOptions& options);
  Parcel* take_parcel();
  void on_sent(Parcel* parcel, ucs_status_t status);
  void on_message(std::span<const std::byte> message);
  void deliver(Link& link, const WireHeader& header, std::span<const std::byte> payload);
  void close(Link& link);

  static ucs_status_t message_callback(void* self, const void* header, std::size_t header_bytes, void* data,
                                       std::size_t bytes, const ucp_am_recv_param_t* how);
  static void sent_callback(void* request, ucs_status_t status, void* parcel);
  static void failure_callback(void* link, ucp_ep_h endpoint, ucs_status_t status);

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  std::string address_;
  std::string description_;
  Rank rank_ = 0;
  Token token_ = {};
  std::vector<Link> links_;
  std::vector<std::unique_ptr<Parcel>> all_parcels_;
  std::vector<Parcel*> free_parcels_;
  int in_flight_ = 0;
  bool room_ = false;  // has come free since the last progress
  bool failures_ = false;
  std::uint64_t strangers_ = 0;
  WireSink* sink_ = nullptr;  // inside progress
};

UcxWire::UcxWire(const WireOptions& options) {
  open_context(options);
  try {
    open_worker(options);
  } catch (...) {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

// UCX prints warnings of its own when a peer ends before it, which our users would take for errors of theirs. Those who
// have set UCX_LOG_LEVEL to something else get what they asked for.
void silence_ucx() {
  ucs_log_level_t& level = ucs_global_opts.log_component.log_level;
  if (level == UCS_LOG_LEVEL_WARN) level = UCS_LOG_LEVEL_FATAL;
}

void UcxWire::open_context(const WireOptions& options) {
  silence_ucx();
  Config config;
  config.set("NET_DEVICES", options.devices);
  config.set("TLS", options.transports.empty() ? "^sm,self" : options.transports);
  config.set("MAX_EAGER_LANES", "1");  // frames are to stay in order
  config.set("RX_SEG_SIZE", kSegmentBytes);
  config.set("TX_SEG_SIZE", kSegmentBytes);
  if (!options.ports.empty()) config.set("PORT_RANGE", options.ports);

  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "paceline";
  check(ucp_init(&params, config.get(), &context_),
        fmt::format("UCX finds nothing to send with on device '{}'", options.devices));
}

void UcxWire::open_worker(const WireOptions& options) {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  params.events = UCP_WAKEUP_RX | UCP_WAKEUP_TX | UCP_WAKEUP_EDGE;
  check(ucp_worker_create(context_, &params, &worker_),
        fmt::format("UCX cannot open device '{}'{}", options.devices,
                    options.ports.empty() ? "" : " with a port of " + options.ports));
  check(ucp_worker_get_efd(worker_, &descriptor_), "UCX has nothing to wait on");

  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kFrameMessage;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = message_callback;
  handler.arg = this;
  check(ucp_worker_set_am_recv_handler(worker_, &handler), "UCX takes no handler");

  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check(ucp_worker_get_address(worker_, &address, &bytes), "UCX does not tell its address");
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  description_ = "ucx over " + options.devices;
}

UcxWire::~UcxWire() {
  sink_ = nullptr;
  for (Link& link : links_) close(link);
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

// Without a farewell: HostsTransport has seen to it that nothing is under way any more, or has given it up.
void UcxWire::close(Link& link) {
  if (link.endpoint == nullptr) return;
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(std::exchange(link.endpoint, nullptr), &how);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker_);
  ucp_request_free(request);
}

void UcxWire::connect(const ConnectOptions& options) {
  rank_ = options.rank;
  token_ = options.token;
  links_.resize(options.addresses.size());
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    Link& link = links_[peer];
    link.wire = this;
    link.peer = static_cast<Rank>(peer);
    if (options.addresses[peer].empty()) continue;
    ucp_ep_params_t params = {};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(options.addresses[peer].data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {.cb = failure_callback, .arg = &link};
    const ucs_status_t status = ucp_ep_create(worker_, &params, &link.endpoint);
    if (status != UCS_OK) {
      throw Error(Code::system, link.peer,
                  fmt::format("UCX finds no way to rank {}: {} (do all hosts use the same kind of network device?)",
                              peer, ucs_status_string(status)));
    }
  }
}

Parcel* UcxWire::take_parcel() {
  if (free_parcels_.empty()) return all_parcels_.emplace_back(std::make_unique<Parcel>()).get();
  Parcel* parcel = free_parcels_.back();
  free_parcels_.pop_back();
  return parcel;
}

bool UcxWire::put(Rank to, const FrameHeader& header, const std::byte* payload) {
  Link& link = links_[static_cast<std::size_t>(to)];
  CHECK(header.bytes <= kMaxPayload, "a frame's payload fits into a parcel");
  if (link.health != Link::Health::well) return true;
  if (link.in_flight >= kFramesInFlight) {
    link.refused = true;
    return false;
  }
  Parcel* parcel = take_parcel();
  parcel->owner = this;
  parcel->to = to;
  const WireHeader wire{.token = token_, .number = link.sent++, .from = rank_, .reserved = 0, .frame = header};
  std::memcpy(parcel->bytes.data(), &wire, sizeof wire);
  if (header.bytes > 0) std::memcpy(parcel->bytes.data() + sizeof wire, payload, header.bytes);

  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_AM_SEND_FLAG_EAGER;
  how.cb.send = sent_callback;
  how.user_data = parcel;
  ++link.in_flight;
  ++in_flight_;
  void* request =
      ucp_am_send_nbx(link.endpoint, kFrameMessage, nullptr, 0, parcel->bytes.data(), sizeof wire + header.bytes, &how);
  if (!UCS_PTR_IS_PTR(request)) on_sent(parcel, UCS_PTR_STATUS(request));
  return true;
}

void UcxWire::sent_callback(void* request, ucs_status_t status, void* parcel) {
  auto* sent = static_cast<Parcel*>(parcel);
  ucp_request_free(request);
  sent->owner->on_sent(sent, status);
}

void UcxWire::on_sent(Parcel* parcel, ucs_status_t status) {
  Link& link = links_[static_cast<std::size_t>(parcel->to)];
  --link.in_flight;
  --in_flight_;
  free_parcels_.push_back(parcel);
  if (std::exchange(link.refused, false)) room_ = true;
  if (status != UCS_OK) failure_callback(&link, link.endpoint, status);
}

void UcxWire::failure_callback(void* link, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
  auto* failed = static_cast<Link*>(link);
  if (failed->health == Link::Health::well) failed->health = Link::Health::failed;
  failed->wire->failures_ = true;
}

bool UcxWire::progress(WireSink& sink) {
  sink_ = &sink;
  bool any = false;
  // Not until there is nothing more: who receives without end would never send.
  for (int round = 0; round < kRounds && ucp_worker_progress(worker_) != 0; ++round) any = true;
  any |= std::exchange(room_, false);
  if (std::exchange(failures_, false)) {
    for (Link& link : links_) {
      if (link.health != Link::Health::failed) continue;
      link.health = Link::Health::reported;
      any = true;
      sink.on_wire_failure(link.peer);
    }
  }
  sink_ = nullptr;
  return any;
}

bool UcxWire::arm() {
  if (failures_ || room_) return false;
  const ucs_status_t status = ucp_worker_arm(worker_);
  return status == UCS_OK;
}

ucs_status_t UcxWire::message_callback(void* self, const void* /*header*/, std::size_t header_bytes, void* data,
                                       std::size_t bytes, const ucp_am_recv_param_t* how) {
  auto* wire = static_cast<UcxWire*>(self);
  const bool whole = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (!whole || header_bytes != 0 || wire->sink_ == nullptr) {
    ++wire->strangers_;
  } else {
    wire->on_message({static_cast<const std::byte*>(data), bytes});
  }
  return UCS_OK;
}

void UcxWire::on_message(std::span<const std::byte> message) {
  WireHeader header;
  if (message.size() < sizeof header) {
    ++strangers_;
    return;
  }
  std::memcpy(&header, message.data(), sizeof header);
  const auto payload = message.subspan(sizeof header);
  const bool ours = header.token == token_;
  const bool known = header.from >= 0 && static_cast<std::size_t>(header.from) < links_.size() &&
                     links_[static_cast<std::size_t>(header.from)].endpoint != nullptr;
  if (!ours || !known || payload.size() != header.frame.bytes) {
    ++strangers_;
    return;
  }
  deliver(links_[static_cast<std::size_t>(header.from)], header, payload);
}

void UcxWire::deliver(Link& link, const WireHeader& header, std::span<const std::byte> payload) {
  if (header.number != link.received) {
    // Overtaken on another lane, or sent twice; the latter is not ours.
    if (header.number < link.received || link.early.size() > 4096) {
      ++strangers_;
      return;
    }
    auto& kept = link.early[header.number];
    kept.resize(sizeof header + payload.size());
    std::memcpy(kept.data(), &header, sizeof header);
    if (!payload.empty()) std::memcpy(kept.data() + sizeof header, payload.data(), payload.size());
    return;
  }
  ++link.received;
  sink_->on_wire_frame(link.peer, header.frame, payload);
  while (!link.early.empty() && link.early.begin()->first == link.received) {
    const auto kept = std::move(link.early.begin()->second);
    link.early.erase(link.early.begin());
    ++link.received;
    WireHeader next;
    std::memcpy(&next, kept.data(), sizeof next);
    sink_->on_wire_frame(link.peer, next.frame, std::span(kept).subspan(sizeof next));
  }
}

}  // namespace

std::unique_ptr<Wire> open_wire(const WireOptions& options) { return std::make_unique<UcxWire>(options); }

}  // namespace paceline::ucx
