// Error: the one exception class of paceline. It carries what kind of failure this is, which rank it concerns, and a
// sentence that says what happened, to what, and what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace paceline {

using Rank = int;
inline constexpr Rank kNoRank = -1;

enum class Code {
  invalid,    // the caller asked for something that cannot be: bad argument, bad configuration, bad input
  mismatch,   // ranks called different operations
  peer_lost,  // a rank died, left, or can no longer be reached
  timeout,    // a deadline that somebody asked for has passed
  cancelled,  // the operation was given up before it was complete
  system,     // a system call failed
  refused,    // the other side does not accept us: wrong secret, wrong version
  unsound,    // the numbers are wrong: a NaN where none may be, replicas that have drifted apart
};

std::string_view name(Code code);

class Error : public std::runtime_error {
 public:
  Error(Code code, Rank rank, const std::string& sentence) : std::runtime_error(sentence), code_(code), rank_(rank) {}
  Error(Code code, const std::string& sentence) : Error(code, kNoRank, sentence) {}

  Code code() const { return code_; }
  // The rank that failed or disagreed, kNoRank where no single one did.
  Rank rank() const { return rank_; }

 private:
  Code code_;
  Rank rank_;
};

// `what` failed with this errno: "cannot map 64 MiB of shared memory: Cannot allocate memory".
Error system_error(const std::string& what, int error_number);

}  // namespace paceline
