// Matching: the tables in which messages find the receives that wait for them, and receives the messages that came
// before them. Pure bookkeeping, without I/O; owned by the Endpoint's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/random.hpp"
#include "paceline/fabric/endpoint.hpp"

namespace paceline {

// A send or receive under way; what a Pending points to.
struct Operation : OperationStatus {
  enum class Kind : std::uint8_t { send, receive };

  Kind kind = Kind::send;
  Rank peer = kNoRank;  // of a receive: kAnyRank until it is matched
  Tag tag;
  std::uint64_t fingerprint = 0;
  std::uint64_t message = 0;  // the sender's number of a requested message
  std::size_t total = 0;      // bytes of the message
  std::size_t moved = 0;      // bytes of it that have been put or taken

  const std::byte* source = nullptr;          // send
  std::span<std::byte> into;                  // receive
  std::vector<std::byte>* growing = nullptr;  // receive of unknown size
  Combine combine = nullptr;                  // receive
  bool exact = false;                         // receive: the message must fill `into`
  bool credited = false;                      // receive: its end gives the sender credit back

  Operation* previous = nullptr;  // in its MatchList, or in the pool's free list
  Operation* next = nullptr;

  void reset() { *this = Operation{}; }
};

// A message, or the request for one, that no receive has asked for yet.
struct Arrival {
  Rank peer = kNoRank;
  FrameHeader header;
  Tag tag;
  std::vector<std::byte> payload;  // of an eager message; of a stream, what has come
  Arrival* previous = nullptr;
  Arrival* next = nullptr;

  void reset() { payload.clear(); }  // keeps its memory: all else is set anew
};

// Items (Operation or Arrival) by tag, oldest first. Items are linked, not owned.
template <class Item>
class MatchTable {
 public:
  void insert(Item* item) {
    Bucket& bucket = bucket_of(item->tag);
    item->previous = bucket.last;
    item->next = nullptr;
    (bucket.last == nullptr ? bucket.first : bucket.last->next) = item;
    bucket.last = item;
  }

  void remove(Item* item) {
    Bucket& bucket = bucket_of(item->tag);
    (item->previous == nullptr ? bucket.first : item->previous->next) = item->next;
    (item->next == nullptr ? bucket.last : item->next->previous) = item->previous;
  }

  // The oldest item with this tag whose peer is `peer`, where kAnyRank on either side fits all.
  Item* find(Rank peer, const Tag& tag) {
    for (Item* item = bucket_of(tag).first; item != nullptr; item = item->next) {
      const bool peers_fit = item->peer == peer || item->peer == kAnyRank || peer == kAnyRank;
      if (peers_fit && item->tag == tag) return item;
    }
    return nullptr;
  }

  // All items, in no particular order; they may be removed one by one from the copy.
  template <class Predicate>
  std::vector<Item*> select(Predicate wanted) const {
    std::vector<Item*> found;
    for (const Bucket& bucket : buckets_) {
      for (Item* item = bucket.first; item != nullptr; item = item->next) {
        if (wanted(*item)) found.push_back(item);
      }
    }
    return found;
  }

 private:
  struct Bucket {
    Item* first = nullptr;
    Item* last = nullptr;
  };
  static constexpr std::size_t kBuckets = 1024;  // short chains for some thousand items

  Bucket& bucket_of(const Tag& tag) { return buckets_[mix(tag.context, tag.value) % kBuckets]; }

  std::array<Bucket, kBuckets> buckets_{};
};

// Recycles objects, so that a message costs no allocation. Addresses stay valid while the pool lives.
template <class Item>
class Pool {
 public:
  Item* take() {
    if (free_ == nullptr) return all_.emplace_back(std::make_unique<Item>()).get();
    Item* item = free_;
    free_ = item->next;
    item->next = nullptr;
    return item;
  }

  void give_back(Item* item) {
    item->reset();
    item->next = free_;
    free_ = item;
  }

 private:
  std::vector<std::unique_ptr<Item>> all_;
  Item* free_ = nullptr;
};

}  // namespace paceline
