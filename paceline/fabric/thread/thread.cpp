#include "paceline/fabric/thread/thread.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "paceline/fabric/cores.hpp"
#include "paceline/fabric/inbox_transport.hpp"

namespace paceline {
namespace {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;

AlignedMemory aligned_zeros(std::size_t bytes) {
  const std::size_t rounded = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  AlignedMemory memory(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, rounded)));
  if (memory == nullptr) throw system_error("cannot allocate memory for an arena", ENOMEM);
  std::memset(memory.get(), 0, rounded);
  return memory;
}

struct Region {
  AlignedMemory memory;
  std::size_t bytes;
};

// What the ranks of one job share. Lives as long as its last rank, so that ranks may leave in any order.
class Mesh {
 public:
  explicit Mesh(int size) : regions_(static_cast<std::size_t>(size)) {
    const ChannelShape shape = ChannelShape::for_ranks(size);
    for (int rank = 0; rank < size; ++rank) {
      memory_.push_back(aligned_zeros(Inbox::bytes(size, shape)));
      doorbells_.emplace_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
      if (!doorbells_.back().valid()) throw system_error("cannot create an eventfd", errno);
      peers_.push_back({Inbox(memory_.back().get(), shape), doorbells_.back().number(), {"this process", getpid()}});
    }
  }

  const std::vector<InboxPeer>& peers() const { return peers_; }

  SharedRegion allocate(Rank owner, std::size_t bytes) {
    auto region = std::make_shared<Region>(Region{aligned_zeros(bytes), bytes});
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_id_;
    const std::span<std::byte> memory(region->memory.get(), bytes);
    regions_[static_cast<std::size_t>(owner)].emplace(id, std::move(region));
    return {id, memory};
  }

  void release(Rank owner, std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    regions_[static_cast<std::size_t>(owner)].erase(id);
  }

  // shared_ptr: a peer that is still writing to a region keeps it alive after its owner let it go.
  std::shared_ptr<Region> find(Rank owner, std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto& regions = regions_[static_cast<std::size_t>(owner)];
    const auto found = regions.find(id);
    return found == regions.end() ? nullptr : found->second;
  }

 private:
  std::vector<AlignedMemory> memory_;
  std::vector<Descriptor> doorbells_;
  std::vector<InboxPeer> peers_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::uint64_t last_id_ = 0;
  std::vector<std::map<std::uint64_t, std::shared_ptr<Region>>> regions_;
};

class ThreadTransport final : public InboxTransport {
 public:
  ThreadTransport(Rank rank, std::shared_ptr<Mesh> mesh)
      : InboxTransport(rank, mesh->peers(), "thread", available_cores().count()), mesh_(std::move(mesh)) {}

  SharedRegion allocate(std::size_t bytes) override { return mesh_->allocate(facts().rank, bytes); }
  void release(std::uint64_t region) override { mesh_->release(facts().rank, region); }

  std::optional<std::span<std::byte>> map(Rank peer, std::uint64_t id) override {
    auto region = mesh_->find(peer, id);
    if (region == nullptr) {
      mapped_.erase({peer, id});
      return std::nullopt;
    }
    const std::span<std::byte> memory(region->memory.get(), region->bytes);
    mapped_.insert_or_assign({peer, id}, std::move(region));
    return memory;
  }

 private:
  void on_ready(std::uint64_t) override {}

  std::shared_ptr<Mesh> mesh_;
  std::map<std::pair<Rank, std::uint64_t>, std::shared_ptr<Region>> mapped_;
};

}  // namespace

std::vector<std::unique_ptr<Endpoint>> make_thread_endpoints(int size) {
  auto mesh = std::make_shared<Mesh>(size);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (Rank rank = 0; rank < size; ++rank) {
    endpoints.push_back(std::make_unique<Endpoint>(std::make_unique<ThreadTransport>(rank, mesh)));
  }
  return endpoints;
}

}  // namespace paceline
