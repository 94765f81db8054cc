// What `paceline train` and its workers, `paceline-train`, agree on. A worker's only argument is the configuration
// itself, as JSON: the hosts of a run need not share a folder. Workers that have not met yet all get one without a
// number of workers.
#pragma once

namespace paceline {

// The key of an object that stands for a configuration that is refused: why, as a sentence. Each of the processes that
// mpirun has started finds that out; they meet, so that one of them says it.
inline constexpr const char* kRefused = "refused";

// How a worker ends that fails only because another one did.
inline constexpr int kFollowerExit = 69;  // EX_UNAVAILABLE of sysexits.h
// How a worker ends that cannot do what it was asked to, having said why.
inline constexpr int kRefusedExit = 2;
// How all workers end after a failure that is no worker's own, such as a full disk, having said what it was.
inline constexpr int kTroubleExit = 74;  // EX_IOERR
// How all workers end after a signal: in good order, with this and the signal's number.
inline constexpr int kSignalExit = 128;

}  // namespace paceline
