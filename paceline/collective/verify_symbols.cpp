#include "paceline/collective/verify_symbols.hpp"

#include <algorithm>

namespace paceline {
namespace {

constexpr int kMany = 1000;  // a wrong schedule can double what it counts at each step: no need to know how far

}  // namespace

Symbols::Symbols(int ranks) : ranks_(ranks) {}

// Block -1 stands for any: the initial value of a shape.
Symbols::Id Symbols::initial(int rank, Buffer buffer, int block) {
  return intern(Kind::initial, rank, (block + 1) * 4 + static_cast<int>(buffer));
}

Symbols::Id Symbols::combine(Id a, Id b) {
  if (a == kJunk || b == kJunk) return kJunk;
  return intern(Kind::combine, std::min(a, b), std::max(a, b));
}

Symbols::Id Symbols::fold(const std::vector<Id>& pieces) {
  Id sum = pieces.front();
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (sum == kJunk || pieces[i] == kJunk) return kJunk;
    sum = intern(Kind::fold, sum, pieces[i]);
  }
  return sum;
}

Symbols::Id Symbols::finish(Id a) { return a == kJunk ? kJunk : intern(Kind::finish, a, 0); }

Symbols::Id Symbols::intern(Kind kind, int a, int b) {
  const auto key =
      static_cast<std::uint64_t>(kind) << 60 | static_cast<std::uint64_t>(a) << 30 | static_cast<std::uint64_t>(b);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const Id self = static_cast<Id>(nodes_.size());
  known_.emplace(key, self);
  nodes_.push_back({.kind = kind, .shape = self, .terms = terms_of(kind, self, a, b)});
  const Id shape = shape_of(kind, self, a, b);  // may add nodes
  nodes_[at(self)].shape = shape;
  return self;
}

Symbols::Id Symbols::shape_of(Kind kind, Id self, Id a, Id b) {
  switch (kind) {
    case Kind::initial: return b < 4 ? self : initial(a, static_cast<Buffer>(b % 4), -1);
    case Kind::combine: return shape(a) == a && shape(b) == b ? self : combine(shape(a), shape(b));
    case Kind::fold: return shape(a) == a && shape(b) == b ? self : intern(kind, shape(a), shape(b));
    case Kind::finish: return shape(a) == a ? self : finish(shape(a));
    case Kind::junk: break;
  }
  return kJunk;
}

Symbols::Terms Symbols::terms_of(Kind kind, Id self, Id a, Id b) const {
  if (kind == Kind::initial) return {{self, 1}};
  if (kind == Kind::finish) return nodes_[at(a)].terms;
  const Terms &x = nodes_[at(a)].terms, &y = nodes_[at(b)].terms;
  Terms sum;
  sum.reserve(x.size() + y.size());
  auto i = x.begin();
  for (const auto& term : y) {
    while (i != x.end() && i->first < term.first) sum.push_back(*i++);
    const bool both = i != x.end() && i->first == term.first;
    sum.emplace_back(term.first, std::min(kMany, term.second + (both ? (i++)->second : 0)));
  }
  sum.insert(sum.end(), i, x.end());
  return sum;
}

const Symbols::Terms& Symbols::whole(Buffer buffer, int block) {
  const auto [found, is_new] = wholes_.try_emplace(block * 4 + static_cast<int>(buffer));
  Terms& terms = found->second;
  if (!is_new) return terms;
  for (int rank = 0; rank < ranks_; ++rank) terms.emplace_back(initial(rank, buffer, block), 1);
  std::sort(terms.begin(), terms.end());
  return terms;
}

bool Symbols::is_whole_reduction(Id a, Buffer buffer, int block) {
  const Terms& all = whole(buffer, block);  // may add nodes
  return finished(a) && nodes_[at(a)].terms == all;
}

}  // namespace paceline
