#include "paceline/torch/worker_threads.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>

namespace paceline {

int fair_threads(const Cores& own, const std::vector<Cores>& of_host, std::optional<double> quota) {
  double share = 0;
  for (const int core : own) {
    const auto users = std::count_if(of_host.begin(), of_host.end(), [core](const Cores& cores) {
      return std::binary_search(cores.begin(), cores.end(), core);
    });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(1, users));
  }
  if (quota) share = std::min(share, *quota / static_cast<double>(std::max<std::size_t>(1, of_host.size())));
  constexpr double kRounding = 1e-9;  // three thirds are one core
  return std::max(1, static_cast<int>(share + kRounding));
}

void limit_threads(int threads) {
  at::set_num_threads(threads);
  // Which BLAS is there is known when the program is loaded, not when it is built.
  if (void* function = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    reinterpret_cast<void (*)(int)>(function)(threads);
}

}  // namespace paceline
