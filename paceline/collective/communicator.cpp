#include "paceline/collective/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/collective/communicator_state.hpp"
#include "paceline/collective/schedules.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

// The sentence is made only when it is needed: this is on the way of every operation.
template <class... Arguments>
void require(bool good, fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
  if (!good) [[unlikely]]
    throw Error(Code::invalid, fmt::format(sentence, std::forward<Arguments>(arguments)...));
}

void require_host(const TensorView& view) {
  require(view.device == Device::host,
          "this build of paceline moves tensors in host memory only; copy a CUDA tensor to the host first");
  require(view.count >= 0 && (view.count == 0 || view.data != nullptr), "a tensor view without memory");
}

bool overlap(const TensorView& a, const TensorView& b) {
  return a.bytes() > 0 && b.bytes() > 0 && a.begin() < b.begin() + b.bytes() && b.begin() < a.begin() + a.bytes();
}

// n blocks of one size, one after the other.
std::vector<Extent> even_blocks(int n, std::size_t bytes) {
  std::vector<Extent> blocks;
  for (int i = 0; i < n; ++i) blocks.push_back({static_cast<std::size_t>(i) * bytes, bytes});
  return blocks;
}

// Blocks of `counts` elements, one after the other; throws if they are not what `view` holds.
std::vector<Extent> counted_blocks(const TensorView& view, std::span<const std::int64_t> counts, const char* what) {
  std::vector<Extent> blocks;
  std::size_t offset = 0;
  for (const std::int64_t count : counts) {
    require(count >= 0, "a negative count of {} elements in {}", count, what);
    blocks.push_back({offset, static_cast<std::size_t>(count) * size_of(view.dtype)});
    offset += blocks.back().bytes;
  }
  require(offset == view.bytes(), "the counts of {} add up to {} elements, the tensor has {}", what,
          offset / size_of(view.dtype), view.count);
  return blocks;
}

}  // namespace

// ---- Handle

Handle::Handle(Handle&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)), flight_(std::exchange(other.flight_, nullptr)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    drop();
    state_ = std::exchange(other.state_, nullptr);
    flight_ = std::exchange(other.flight_, nullptr);
  }
  return *this;
}

Handle::~Handle() { drop(); }

void Handle::drop() noexcept {
  if (flight_ == nullptr) return;
  state_->traffic->take_back();
  state_->let_go(std::exchange(flight_, nullptr));
}

bool Handle::test() {
  if (flight_ == nullptr) return true;
  state_->traffic->own();
  return state_->test(flight_);
}

void Handle::wait() {
  if (flight_ == nullptr) return;
  state_->traffic->own();
  state_->wait(flight_);
}

TimePoint Handle::ended() const {
  state_->traffic->take_back();
  return flight_->ended;
}

// ---- Communicator

Communicator::Communicator(Endpoint& endpoint, const Group& group, CommunicatorOptions options)
    : state_(std::make_unique<CommunicatorState>(endpoint, next_namesake(endpoint, group), std::move(options),
                                                 traffic_of(endpoint))) {}
Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}
Communicator::Communicator(Communicator&& other) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return state_->self; }
int Communicator::size() const { return state_->group.size(); }
const Group& Communicator::group() const { return state_->group; }
bool Communicator::shares_memory() const { return state_->planner.maps_memory(); }
Endpoint& Communicator::endpoint() const { return state_->endpoint; }
bool Communicator::spans_hosts() const { return state_->planner.several_hosts(); }
void Communicator::progress() {
  state_->traffic->own();
  state_->step();
}

bool Communicator::can_lend() const { return Mover::possible(state_->endpoint); }
void Communicator::lend() { state_->traffic->lend(); }
bool Communicator::lent() const { return state_->traffic->lent(); }
void Communicator::recall() noexcept { state_->traffic->take_back(); }

Communicator Communicator::beside(Endpoint& endpoint, const Group& group, std::string_view name,
                                  CommunicatorOptions options) {
  std::int64_t color = 0;
  for (const char c : name) color = static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(color), c));
  traffic_of(endpoint)->own();
  return Communicator(endpoint, group.child(group.ranks(), 0, color), std::move(options));
}

void Communicator::give_up(const std::string& reason, int culprit) {
  state_->traffic->own();
  state_->give_up(reason, group().at(culprit));
}
Duration Communicator::waited() const { return state_->time_waited; }
double Communicator::price_of(Collective op, Algorithm algorithm, std::size_t bytes) const {
  return state_->planner.price_of(op, state_->planner.resolve(op, algorithm, bytes), static_cast<double>(bytes));
}
Algorithm Communicator::last_algorithm() const {
  state_->traffic->take_back();
  return state_->last_algorithm;
}

namespace {

// What all operations have in common: pick schedules, lay out the memory, launch.
struct Call {
  CommunicatorState& state;
  const CollectiveOptions& options;
  Request request;

  Call(CommunicatorState& s, Collective op, const TensorView& data, const CollectiveOptions& o) : state(s), options(o) {
    state.traffic->own();
    state.check_usable();
    request.descriptor = state.describe(op, o);
    request.descriptor.dtype = data.dtype;
  }

  void set_root(int root) {
    require(root >= 0 && root < state.group.size(), "root {} is not one of the {} ranks of the group", root,
            state.group.size());
    request.descriptor.root = root;
  }

  template <class MakeLayout>
  Handle go(std::size_t bytes, MakeLayout layout_for) {
    OpDescriptor& d = request.descriptor;
    const int root = std::max(0, d.root);
    const Algorithm algorithm = state.planner.resolve(d.op, options.algorithm, bytes);
    d.algorithm = algorithm;
    request.route.schedule = &state.planner.schedule(d.op, algorithm, root);
    const bool mapped = algorithm == Algorithm::shm;
    request.route.layout = layout_for(*request.route.schedule, mapped);
    if (mapped && options.algorithm == Algorithm::automatic) {
      request.fallback_algorithm = state.planner.without_mapping(d.op, bytes);
      request.fallback.schedule = &state.planner.schedule(d.op, request.fallback_algorithm, root);
      request.fallback.layout = layout_for(*request.fallback.schedule, false);
    }
    return state.launch(state.take_flight(), std::move(request), options);
  }

  // Operations on one vector, in place.
  Handle go_vector(const TensorView& data) {
    request.descriptor.count = data.count;
    request.output = data.begin();
    request.output_bytes = data.bytes();
    return go(data.bytes(), [&](const Schedule& schedule, bool mapped) {
      return Layout::of_vector(data.bytes(), schedule.blocks, mapped ? data.bytes() : segment_bytes(schedule.blocks),
                               schedule.scratch_block);
    });
  }

  Handle go_blocks(const TensorView& input, std::vector<Extent> in, const TensorView& output, std::vector<Extent> out) {
    request.input = input.begin();
    request.output = output.begin();
    request.output_bytes = output.bytes();
    return go(std::max(input.bytes(), output.bytes()), [&](const Schedule&, bool mapped) {
      return Layout::of_blocks(in, out, mapped ? output.bytes() : segment_bytes(state.group.size()));
    });
  }

  std::size_t segment_bytes(int blocks) const {
    return state.options.segment_bytes > 0 ? state.options.segment_bytes
                                           : usual_segment(blocks, state.planner.several_hosts());
  }
};

void require_same_type(const TensorView& a, const TensorView& b) {
  require(a.dtype == b.dtype, "input is {}, output is {}", name(a.dtype), name(b.dtype));
}

void require_blocks(const TensorView& many, const TensorView& one, int n, const char* which) {
  require_host(many);
  require_host(one);
  require_same_type(many, one);
  require(many.count == one.count * n, "{} has {} elements, {} ranks with {} each need {}", which, many.count, n,
          one.count, one.count * n);
}

void require_apart(const TensorView& a, const TensorView& b) {
  require(!overlap(a, b), "input and output overlap; this operation needs two buffers");
}

}  // namespace

Handle Communicator::start_allreduce(TensorView data, ReduceOp op, const Options& options) {
  require_host(data);
  Call call(*state_, Collective::allreduce, data, options);
  call.request.descriptor.reduce = op;
  return call.go_vector(data);
}

Handle Communicator::start_broadcast(TensorView data, int root, const Options& options) {
  require_host(data);
  Call call(*state_, Collective::broadcast, data, options);
  call.set_root(root);
  return call.go_vector(data);
}

Handle Communicator::start_reduce(TensorView data, int root, ReduceOp op, const Options& options) {
  require_host(data);
  Call call(*state_, Collective::reduce, data, options);
  call.set_root(root);
  call.request.descriptor.reduce = op;
  return call.go_vector(data);
}

Handle Communicator::start_barrier(const Options& options) {
  Call call(*state_, Collective::barrier, {}, options);
  return call.go_vector({});
}

Handle Communicator::start_reduce_scatter(TensorView input, TensorView output, ReduceOp op, const Options& options) {
  require_blocks(input, output, size(), "the input of a reduce_scatter");
  require_apart(input, output);
  Call call(*state_, Collective::reduce_scatter, output, options);
  call.request.descriptor.reduce = op;
  call.request.descriptor.count = output.count;
  return call.go_blocks(input, even_blocks(size(), output.bytes()), output, even_blocks(1, output.bytes()));
}

Handle Communicator::start_allgather(TensorView input, TensorView output, const Options& options) {
  require_blocks(output, input, size(), "the output of an allgather");
  Call call(*state_, Collective::allgather, output, options);
  call.request.descriptor.count = input.count;
  std::byte* own = output.begin() + static_cast<std::size_t>(rank()) * input.bytes();
  if (own != input.data && input.bytes() > 0) std::memmove(own, input.data, input.bytes());
  return call.go_blocks({}, {}, output, even_blocks(size(), input.bytes()));
}

Handle Communicator::start_allgatherv(TensorView input, TensorView output, std::span<const std::int64_t> counts,
                                      const Options& options) {
  require_host(input);
  require_host(output);
  require_same_type(input, output);
  require(std::ssize(counts) == size(), "allgatherv got {} counts for {} ranks", counts.size(), size());
  const std::vector<Extent> blocks = counted_blocks(output, counts, "allgatherv");
  const Extent own = blocks[static_cast<std::size_t>(rank())];
  require(own.bytes == input.bytes(), "allgatherv's input has {} elements, its count for this rank is {}", input.count,
          counts[static_cast<std::size_t>(rank())]);
  Call call(*state_, Collective::allgatherv, output, options);
  for (const std::int64_t count : counts) {
    call.request.descriptor.shape = mix(call.request.descriptor.shape, static_cast<std::uint64_t>(count));
  }
  if (output.begin() + own.offset != input.data && own.bytes > 0)
    std::memmove(output.begin() + own.offset, input.data, own.bytes);
  return call.go_blocks({}, {}, output, blocks);
}

Handle Communicator::start_gather(TensorView input, TensorView output, int root, const Options& options) {
  const bool is_root = rank() == root;
  if (is_root) {
    require_blocks(output, input, size(), "the output of a gather");
    const bool in_place = input.begin() == output.begin() + static_cast<std::size_t>(root) * input.bytes();
    require(in_place || !overlap(input, output), "gather's input lies in its output, but not in its own block of it");
  }
  require_host(input);
  Call call(*state_, Collective::gather, input, options);
  call.set_root(root);
  call.request.descriptor.count = input.count;
  return call.go_blocks(input, even_blocks(1, input.bytes()), is_root ? output : TensorView{},
                        even_blocks(size(), is_root ? input.bytes() : 0));
}

Handle Communicator::start_scatter(TensorView input, TensorView output, int root, const Options& options) {
  const bool is_root = rank() == root;
  if (is_root) require_blocks(input, output, size(), "the input of a scatter");
  require_host(output);
  Call call(*state_, Collective::scatter, output, options);
  call.set_root(root);
  call.request.descriptor.count = output.count;
  return call.go_blocks(is_root ? input : TensorView{}, even_blocks(size(), is_root ? output.bytes() : 0), output,
                        even_blocks(1, output.bytes()));
}

Handle Communicator::start_alltoall(TensorView input, TensorView output, const Options& options) {
  require_host(input);
  require_host(output);
  require_same_type(input, output);
  require_apart(input, output);
  require(input.count == output.count, "alltoall's input has {} elements, its output {}", input.count, output.count);
  require(input.count % size() == 0, "alltoall cannot divide {} elements among {} ranks", input.count, size());
  Call call(*state_, Collective::alltoall, input, options);
  call.request.descriptor.count = input.count;
  const std::size_t block = input.bytes() / static_cast<std::size_t>(size());
  return call.go_blocks(input, even_blocks(size(), block), output, even_blocks(size(), block));
}

Handle Communicator::start_alltoallv(TensorView input, std::span<const std::int64_t> send_counts, TensorView output,
                                     std::span<const std::int64_t> receive_counts, const Options& options) {
  require_host(input);
  require_host(output);
  require_same_type(input, output);
  require_apart(input, output);
  require(std::ssize(send_counts) == size() && std::ssize(receive_counts) == size(),
          "alltoallv got {} and {} counts for {} ranks", send_counts.size(), receive_counts.size(), size());
  const auto in = counted_blocks(input, send_counts, "alltoallv's input");
  const auto out = counted_blocks(output, receive_counts, "alltoallv's output");
  const auto self = static_cast<std::size_t>(rank());
  require(in[self].bytes == out[self].bytes,
          "alltoallv: what this rank sends to itself is not what it expects from itself");
  Call call(*state_, Collective::alltoallv, input, options);
  return call.go_blocks(input, in, output, out);
}

Handle Communicator::start_neighbour_exchange(TensorView input, TensorView output, std::span<const int> neighbours,
                                              const Options& options) {
  require_host(input);
  require_host(output);
  require_same_type(input, output);
  require_apart(input, output);
  const auto n = static_cast<std::int64_t>(neighbours.size());
  require(input.count == output.count && (n == 0 ? input.count == 0 : input.count % n == 0),
          "neighbour_exchange cannot divide {} and {} elements among {} neighbours", input.count, output.count, n);
  for (const int peer : neighbours) {
    require(peer >= 0 && peer < size() && peer != rank(), "{} cannot be a neighbour of rank {} in a group of {}", peer,
            rank(), size());
  }
  Call call(*state_, Collective::neighbour_exchange, input, options);
  call.request.descriptor.algorithm = Algorithm::pairwise;
  call.request.input = input.begin();
  call.request.output = output.begin();
  Flight* flight = state_->take_flight();
  flight->own_schedule = link_steps(schedules::neighbours({neighbours.begin(), neighbours.end()}), size());
  call.request.route.schedule = &flight->own_schedule;
  const auto blocks = even_blocks(static_cast<int>(n), n == 0 ? 0 : input.bytes() / static_cast<std::size_t>(n));
  call.request.route.layout = Layout::of_blocks(blocks, blocks, call.segment_bytes(size()));
  return state_->launch(flight, std::move(call.request), options);
}

// ---- blocking forms

void Communicator::allreduce(TensorView data, ReduceOp op, const Options& options) {
  start_allreduce(data, op, options).wait();
}
void Communicator::reduce_scatter(TensorView input, TensorView output, ReduceOp op, const Options& options) {
  start_reduce_scatter(input, output, op, options).wait();
}
void Communicator::allgather(TensorView input, TensorView output, const Options& options) {
  start_allgather(input, output, options).wait();
}
void Communicator::allgatherv(TensorView input, TensorView output, std::span<const std::int64_t> counts,
                              const Options& options) {
  start_allgatherv(input, output, counts, options).wait();
}
void Communicator::broadcast(TensorView data, int root, const Options& options) {
  start_broadcast(data, root, options).wait();
}
void Communicator::reduce(TensorView data, int root, ReduceOp op, const Options& options) {
  start_reduce(data, root, op, options).wait();
}
void Communicator::gather(TensorView input, TensorView output, int root, const Options& options) {
  start_gather(input, output, root, options).wait();
}
void Communicator::scatter(TensorView input, TensorView output, int root, const Options& options) {
  start_scatter(input, output, root, options).wait();
}
void Communicator::alltoall(TensorView input, TensorView output, const Options& options) {
  start_alltoall(input, output, options).wait();
}
void Communicator::alltoallv(TensorView input, std::span<const std::int64_t> send_counts, TensorView output,
                             std::span<const std::int64_t> receive_counts, const Options& options) {
  start_alltoallv(input, send_counts, output, receive_counts, options).wait();
}
void Communicator::neighbour_exchange(TensorView input, TensorView output, std::span<const int> neighbours,
                                      const Options& options) {
  start_neighbour_exchange(input, output, neighbours, options).wait();
}
void Communicator::barrier(const Options& options) { start_barrier(options).wait(); }

// ---- other groups

Communicator Communicator::split(std::int64_t color, std::int64_t key) {
  std::vector<std::int64_t> mine = {color, key}, all(2 * static_cast<std::size_t>(size()));
  allgather(view(mine), view(all), {.name = "split"});
  std::vector<std::pair<std::int64_t, int>> members;  // key, then index
  for (int index = 0; index < size(); ++index) {
    const auto i = 2 * static_cast<std::size_t>(index);
    if (all[i] == color) members.emplace_back(all[i + 1], index);
  }
  std::sort(members.begin(), members.end());
  std::vector<Rank> ranks;
  for (const auto& member : members) ranks.push_back(group().at(member.second));
  Group child = group().child(std::move(ranks), state_->splits++, color);
  auto state = std::make_unique<CommunicatorState>(endpoint(), std::move(child), state_->options, state_->traffic);
  state->break_with_parent(*state_);
  return Communicator(std::move(state));
}

Communicator Communicator::recover(Duration timeout) {
  state_->traffic->own();
  Group next = state_->agree_on_survivors(endpoint().clock().after(timeout));
  return Communicator(
      std::make_unique<CommunicatorState>(endpoint(), std::move(next), state_->options, state_->traffic));
}

}  // namespace paceline
