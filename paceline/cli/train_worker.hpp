// What `paceline train` and its workers, `paceline-train`, agree on.
#pragma once

namespace paceline {

// How a worker ends that fails only because another one did.
inline constexpr int kFollowerExit = 69;  // EX_UNAVAILABLE of sysexits.h

}  // namespace paceline
