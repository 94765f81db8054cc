#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "paceline/collective/verify_run.hpp"

namespace paceline {
namespace {

using Id = Symbols::Id;

// What is wrong with a block's content; empty if nothing is.
std::string content_fault(const Content& content, Symbols& symbols, Id held, Id initial) {
  switch (content.kind) {
    case Content::Kind::kept: return held == initial ? "" : "does not hold what it held before";
    case Content::Kind::copied:
      if (held == symbols.initial(content.rank, content.buffer, content.block)) return "";
      return "does not hold what it is to be a copy of";
    case Content::Kind::reduced:
      if (symbols.is_whole_reduction(held, content.buffer, content.block)) return "";
      return symbols.finished(held) ? "does not hold every rank's part once" : "holds a sum that is not finished";
    case Content::Kind::unspecified: break;
  }
  return "";
}

void check_contents(VerifyCase& c, Symbols& symbols, const SymbolicRun& run) {
  for (int rank = 0; rank < c.ranks(); ++rank) {
    for (int block = 0; block < c.blocks_in(rank, Buffer::output); ++block) {
      const Id initial = symbols.initial(rank, Buffer::output, block);
      const std::string fault = content_fault(c.goal.content(rank, block), symbols, run.held(rank, block), initial);
      if (!fault.empty()) c.report({rank, -1}, fmt::format("at the end output {} {}", block, fault));
    }
  }
}

void compare_bits(const VerifyCase& c, const Symbols& symbols, const SymbolicRun& run, Verdict& verdict) {
  std::optional<Id> shape;
  for (int rank = 0; rank < c.ranks(); ++rank) {
    for (int block = 0; block < c.blocks_in(rank, Buffer::output); ++block) {
      const Content content = c.goal.content(rank, block);
      if (content.kind != Content::Kind::reduced) continue;
      const Id held = run.held(rank, block);
      // Blocks of a reduce_scatter and the one of a reduce have nothing on other ranks to be compared with.
      const bool on_all = content.buffer == Buffer::output && c.goal.content(0, block).kind == Content::Kind::reduced;
      if (on_all && held != run.held(0, block)) verdict.same_bits_on_all_ranks = false;
      if (shape.value_or(symbols.shape(held)) != symbols.shape(held)) verdict.same_bits_in_all_blocks = false;
      shape = symbols.shape(held);
    }
  }
}

// With one rank missing, nobody may get to the end.
void check_all_must_enter(VerifyCase& c, Symbols& symbols) {
  for (int absent = 0; absent < c.ranks(); ++absent) {
    SymbolicRun run(c, symbols, {}, Buffers::enough);
    run.go(absent);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      if (rank == absent || !run.done(rank)) continue;
      c.report({rank, -1}, fmt::format("it is done before rank {} has begun", absent));
    }
  }
}

}  // namespace

void check_runs(VerifyCase& c, Verdict& verdict) {
  using Kind = Order::Kind;
  Symbols symbols(c.ranks());
  for (const Order& order :
       {Order{Kind::eager}, Order{Kind::lazy}, Order{Kind::random, Random(1)}, Order{Kind::random, Random(2)}}) {
    SymbolicRun run(c, symbols, order);
    run.go();
    if (!run.all_done()) return run.report_stuck();
    check_contents(c, symbols, run);
    if (order.kind != Kind::eager) continue;
    verdict.rounds = run.rounds();
    compare_bits(c, symbols, run, verdict);
  }
  if (c.goal.all_must_enter) check_all_must_enter(c, symbols);
}

}  // namespace paceline
