// What steps do to symbols: the other half of SymbolicRun.
#include <algorithm>

#include "paceline/collective/verify_run.hpp"

namespace paceline {

SymbolicRun::Id& SymbolicRun::block(int rank, const Blocks& blocks, int i) {
  return ranks_[at(rank)].memory[at(static_cast<int>(blocks.buffer))][at(blocks.first + i)];
}

int SymbolicRun::size_of(int rank, const Blocks& blocks, int i) const {
  const int number = blocks.first + i;
  if (blocks.buffer != Buffer::scratch) return case_.goal.size(rank, blocks.buffer, number);
  return case_.goal.size(rank, Buffer::output, number % case_.schedule(rank).blocks);
}

// Blocks have sizes, and what comes from a block of one size cannot go into one of another.
void SymbolicRun::check_size(Place place, int from_rank, const Blocks& from, int i) {
  if (size_of(from_rank, from, i) == size_of(place.rank, case_.step(place).what, i)) return;
  case_.report(place, "a block of another size comes in");
}

SymbolicRun::Id SymbolicRun::combine(Place place, Id a, Id b) {
  if (a == Symbols::kJunk || b == Symbols::kJunk) case_.report(place, "it adds what nobody has written");
  if (symbols_.finished(a) || symbols_.finished(b)) case_.report(place, "it adds to a sum that is finished");
  return symbols_.combine(a, b);
}

SymbolicRun::Id SymbolicRun::finish(Place place, Id a) {
  if (symbols_.finished(a)) case_.report(place, "it finishes a sum for the second time");
  return symbols_.finish(a);
}

SymbolicRun::Id SymbolicRun::fold(Place place, const std::vector<Id>& pieces) {
  const auto finished = [this](Id piece) { return symbols_.finished(piece); };
  const auto junk = [](Id piece) { return piece == Symbols::kJunk; };
  if (std::any_of(pieces.begin(), pieces.end(), junk)) case_.report(place, "it adds what nobody has written");
  if (std::any_of(pieces.begin(), pieces.end(), finished)) case_.report(place, "it adds to a sum that is finished");
  return symbols_.finish(symbols_.fold(pieces));
}

void SymbolicRun::run_local(Place place) {
  const Step& step = case_.step(place);
  for (int i = 0; i < step.what.count; ++i) {
    if (step.action == Action::direct) {
      run_direct(place, i);
    } else {
      run_local_block(place, i);
    }
  }
}

void SymbolicRun::run_local_block(Place place, int i) {
  const Step& step = case_.step(place);
  Id& what = block(place.rank, step.what, i);
  if (step.action == Action::finish) {
    what = finish(place, what);
    return;
  }
  const int from = step.action == Action::pull ? step.peer : place.rank;
  check_size(place, from, step.with, i);
  const Id with = block(from, step.with, i);
  if (step.action == Action::add) {
    what = combine(place, what, with);
  } else if (step.action == Action::fold) {
    what = fold(place, pieces_to_fold(place, i));
  } else {
    what = with;
  }
}

std::vector<SymbolicRun::Id> SymbolicRun::pieces_to_fold(Place place, int i) {
  const Step& step = case_.step(place);
  std::vector<Id> pieces;
  for (int rank = 0; rank < case_.ranks(); ++rank) {
    const Blocks copy{Buffer::scratch, rank * case_.schedule(place.rank).blocks + step.what.first, step.what.count};
    pieces.push_back(block(place.rank, rank == place.rank ? step.with : copy, i));
  }
  return pieces;
}

void SymbolicRun::run_direct(Place place, int i) {
  const Step& step = case_.step(place);
  std::vector<Id> pieces;
  for (int rank = 0; rank < case_.ranks(); ++rank) pieces.push_back(block(rank, step.what, i));
  const Id sum = fold(place, pieces);
  for (int rank = 0; rank < case_.ranks(); ++rank) block(rank, step.what, i) = sum;
}

}  // namespace paceline
