// Plan: how a job's work is distributed, as four independent answers. Parsed from what a user writes, checked against
// what there is.
//
//   Plan plan = parse_plan("where=ring what=dense");     // what is not said has its default
//   plan.set("when", "delayed:2");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/collective/schedule.hpp"

namespace paceline {

struct Plan {
  std::string split = "data";       // who computes which part
  std::string when = "bsp";         // when updates meet
  std::string where = "allreduce";  // which way they travel
  std::string what = "dense";       // what is sent

  // `key` may be an alias: sync, comm, compress. Throws Error{invalid} that lists the words there are.
  void set(std::string_view key, std::string_view word);
  // Of `where`: automatic for "allreduce".
  Algorithm algorithm() const;
  // Of `when`: how many steps late a gradient is applied; 0 for "bsp".
  int delay() const;
  // "split=data when=bsp where=allreduce what=dense"
  std::string text() const;

  bool operator==(const Plan&) const = default;
};

// Pairs key=word, separated by spaces or commas.
Plan parse_plan(std::string_view text);

// The words that a key may have, for help and errors; one that takes a number is shown with its least.
const std::vector<std::string>& plan_words(std::string_view key);

}  // namespace paceline
