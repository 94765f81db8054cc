// Answers: what PMIx's thread has to say to calls that it was given. PMIx keeps no deadline of its own where several
// servers take part, so that we wait here, and an answer may come after we have given up: it then finds its Answers
// still there, and nobody reads it.
#pragma once

#include <pmix.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "paceline/core/clock.hpp"

namespace paceline {

// Thread-safe.
class Answers {
 public:
  explicit Answers(std::size_t calls) : status_(calls) {}

  void put(std::size_t call, pmix_status_t status) {
    const std::lock_guard held(mutex_);
    if (!status_[call]) ++answered_;
    status_[call] = status;
    changed_.notify_all();
  }

  // Until all have come, at most until then. One per call; nullopt: none yet.
  std::vector<std::optional<pmix_status_t>> wait_until(TimePoint deadline) {
    std::unique_lock held(mutex_);
    changed_.wait_until(held, deadline, [this] { return answered_ == status_.size(); });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<std::optional<pmix_status_t>> status_;
  std::size_t answered_ = 0;
};

// What a callback of PMIx gets as its data.
struct Ticket {
  std::shared_ptr<Answers> answers;  // shared: the waiter may leave first
  std::size_t call;
  std::shared_ptr<const void> question;  // what PMIx was given pointers to, and may look at until it answers

  static void redeem(void* data, pmix_status_t status) {
    const std::unique_ptr<Ticket> ticket(static_cast<Ticket*>(data));
    ticket->answers->put(ticket->call, status);
  }
};

// Makes one non-blocking call of PMIx: start(question, data), where `data` is for the callback.
template <class Question, class Start>
void call_pmix(const std::shared_ptr<Answers>& answers, std::size_t call, std::shared_ptr<const Question> question,
               Start start) {
  auto ticket = std::make_unique<Ticket>(Ticket{answers, call, question});
  const pmix_status_t status = start(*question, ticket.get());
  if (status == PMIX_SUCCESS) {
    static_cast<void>(ticket.release());  // the callback's, which may be over already
  } else {
    answers->put(call, status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
  }
}

}  // namespace paceline
