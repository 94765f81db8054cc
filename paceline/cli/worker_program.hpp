// The program that workers with LibTorch are: `paceline-train`, beside `paceline`.
#pragma once

#include <string>

#include "paceline/launch/launcher.hpp"

namespace paceline {

inline constexpr const char* kTorchWorker = "paceline-train";
// Large pages for large tensors: fewer misses of the TLB. The kernel gives them to those who ask; glibc asks if this
// variable tells it to.
inline constexpr const char* kTunables = "GLIBC_TUNABLES";

// Where this program is.
std::string own_program();
// Error{invalid} where paceline was built without LibTorch.
std::string torch_worker_program();

// What jobs of such workers have in common.
RunOptions torch_worker_options();

// As run(), with the codes by which workers tell how they ended turned into those of a command.
int run_torch_workers(const RunOptions& options);

}  // namespace paceline
