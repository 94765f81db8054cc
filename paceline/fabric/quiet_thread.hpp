// quiet_thread: starts a thread that takes no signals. Those are for the threads of the user's program.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace paceline {

template <class Body>
std::jthread quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  std::jthread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace paceline
