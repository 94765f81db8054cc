// Symbols: what blocks hold, as expressions over what they held at the beginning. Each expression exists once, so that
// two blocks hold the same bits if and only if their numbers are equal. Part of verify.hpp.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "paceline/collective/schedule.hpp"

namespace paceline {

class Symbols {
 public:
  using Id = int;
  static constexpr Id kJunk = 0;  // scratch that nobody has written, or a block that a message is arriving in

  explicit Symbols(int ranks);

  // What block `block` of `buffer` of `rank` held at the beginning.
  Id initial(int rank, Buffer buffer, int block);
  Id combine(Id a, Id b);  // a op b; the same as b op a
  // ((pieces[0] op pieces[1]) op …) as one kernel does it, which rounds f16 once: not the same as several combines.
  Id fold(const std::vector<Id>& pieces);
  Id finish(Id a);

  bool finished(Id a) const { return nodes_[at(a)].kind == Kind::finish; }
  // The expression with every initial value's block left out: what happens to an element, wherever it lies.
  Id shape(Id a) const { return nodes_[at(a)].shape; }
  // Is this the finished reduction of block `block` of `buffer` that has every rank in it once?
  bool is_whole_reduction(Id a, Buffer buffer, int block);

 private:
  enum class Kind : std::uint8_t { junk, initial, combine, fold, finish };
  using Terms = std::vector<std::pair<Id, int>>;  // initial values and how often each is in it, ordered
  struct Node {
    Kind kind = Kind::junk;
    Id shape = kJunk;
    Terms terms = {};
  };

  static std::size_t at(Id id) { return static_cast<std::size_t>(id); }
  Id intern(Kind kind, int a, int b);
  Id shape_of(Kind kind, Id self, Id a, Id b);
  Terms terms_of(Kind kind, Id self, Id a, Id b) const;
  const Terms& whole(Buffer buffer, int block);

  const int ranks_;
  std::vector<Node> nodes_ = {Node{}};
  std::unordered_map<std::uint64_t, Id> known_;
  std::unordered_map<int, Terms> wholes_;  // every rank's part once, by buffer and block
};

}  // namespace paceline
