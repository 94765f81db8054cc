#include "paceline/torch/stop_signals.hpp"

#include <signal.h>

#include <array>
#include <atomic>

namespace paceline {
namespace {

struct Known {
  int number;
  const char* name;
};
constexpr std::array<Known, StopSignals::kCount> kKnown = {
    {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}}};

// A signal handler reaches nothing but globals.
std::atomic<int> arrived{0};
static_assert(std::atomic<int>::is_always_lock_free);
std::array<struct sigaction, StopSignals::kCount> previous;

extern "C" void on_stop_signal(int number) { arrived.store(number, std::memory_order_relaxed); }

}  // namespace

StopSignals::StopSignals() {
  arrived = 0;
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kKnown.size(); ++i) sigaction(kKnown[i].number, &action, &previous[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kKnown.size(); ++i) sigaction(kKnown[i].number, &previous[i], nullptr);
}

int StopSignals::pending() const {
  const int number = arrived.load(std::memory_order_relaxed);
  for (int i = 0; i < kCount; ++i) {
    if (kKnown[static_cast<std::size_t>(i)].number == number) return i;
  }
  return -1;
}

std::string StopSignals::name(int index) { return kKnown[static_cast<std::size_t>(index)].name; }
int StopSignals::number(int index) { return kKnown[static_cast<std::size_t>(index)].number; }

}  // namespace paceline
