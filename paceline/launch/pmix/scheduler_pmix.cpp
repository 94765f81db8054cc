// The Scheduler of PMIx (the Process Management Interface for Exascale, version 4), which Open MPI's mpirun and Slurm's
// srun both speak: each host has a server, the launcher's own, with which its processes talk over loopback.
//
// share is put, commit, and a fence that collects: when it is through, every server has what rank 0 has put.
#include <fmt/format.h>
#include <pmix.h>
#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/check.hpp"
#include "paceline/launch/pmix/answers.hpp"
#include "paceline/launch/pmix/started_by.hpp"
#include "paceline/launch/rank_list.hpp"
#include "paceline/launch/scheduler.hpp"

namespace paceline {
namespace {

constexpr auto kProbeTime = std::chrono::seconds(1);

[[noreturn]] void fail(const std::string& what, pmix_status_t status) {
  throw Error(Code::system, fmt::format("{}: {}", what, PMIx_Error_string(status)));
}

// PMIx starts a thread. Signals are for the threads of the user's program.
pmix_status_t init_quietly(pmix_proc_t& self) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pmix_status_t status = PMIx_Init(&self, nullptr, 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

class Info {
 public:
  Info(const char* key, const void* value, pmix_data_type_t type) { PMIx_Info_load(&info_, key, value, type); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  ~Info() { PMIX_INFO_DESTRUCT(&info_); }
  const pmix_info_t* get() const { return &info_; }

 private:
  pmix_info_t info_{};
};

struct Question {
  Question(const pmix_proc_t& to, std::string about, const char* option, const void* value, pmix_data_type_t type)
      : whom(to), key(std::move(about)), how(option, value, type) {}
  const pmix_proc_t whom;
  const std::string key;
  const Info how;
};

struct ReleaseValue {
  void operator()(pmix_value_t* value) const { PMIX_VALUE_RELEASE(value); }
};
using Value = std::unique_ptr<pmix_value_t, ReleaseValue>;

// Nothing if it is not there or not of that type.
Value get(const pmix_proc_t& of, const char* key, pmix_data_type_t type, pmix_status_t& status) {
  const int seconds = 10;  // the server has it, or will never have it
  const Info timeout(PMIX_TIMEOUT, &seconds, PMIX_INT);
  pmix_value_t* found = nullptr;
  status = PMIx_Get(&of, key, timeout.get(), 1, &found);
  Value value(found);
  if (status == PMIX_SUCCESS && (!value || value->type != type)) status = PMIX_ERR_TYPE_MISMATCH;
  if (status != PMIX_SUCCESS) value.reset();
  return value;
}

class PmixScheduler final : public Scheduler {
 public:
  PmixScheduler() {
    const pmix_status_t status = init_quietly(self_);
    if (status != PMIX_SUCCESS) {
      fail(
          "the launcher that PMIX_NAMESPACE and PMIX_RANK speak of does not answer (was this process started by mpirun "
          "or `srun --mpi=pmix` itself? to run it alone, unset both)",
          status);
    }
    try {
      size_ = job_size();
    } catch (...) {
      PMIx_Finalize(nullptr, 0);
      throw;
    }
  }
  PmixScheduler(const PmixScheduler&) = delete;
  PmixScheduler& operator=(const PmixScheduler&) = delete;
  // Says good-bye to this host's server and waits for nobody else.
  ~PmixScheduler() override { PMIx_Finalize(nullptr, 0); }

  Rank rank() const override { return static_cast<Rank>(self_.rank); }
  int size() const override { return size_; }

  std::string share(const std::string& from_rank_0, Duration timeout) override {
    CHECK(from_rank_0.size() <= kMaxShared, "a text to share is short");
    const TimePoint deadline = SteadyClock().after(timeout);
    const std::string key = fmt::format("paceline.share.{}", shared_++);
    put(key, rank() == 0 ? from_rank_0 : "");
    await_all(key, timeout, deadline);
    return text_of_rank_0(key);
  }

 private:
  pmix_proc_t proc(pmix_rank_t rank) const {
    pmix_proc_t result = self_;
    result.rank = rank;
    return result;
  }

  int job_size() const {
    pmix_status_t status = PMIX_SUCCESS;
    const Value value = get(proc(PMIX_RANK_WILDCARD), PMIX_JOB_SIZE, PMIX_UINT32, status);
    if (!value) fail("the launcher does not tell how many processes it has started (PMIX_JOB_SIZE)", status);
    const auto size = value->data.uint32;
    if (size <= self_.rank || size > std::uint32_t{1} << 30) {
      throw Error(Code::system, fmt::format("the launcher makes no sense: rank {} of {}", self_.rank, size));
    }
    return static_cast<int>(size);
  }

  // Every rank puts, so that it can be asked who has come; only rank 0 has something to say.
  static void put(const std::string& key, std::string text) {
    text.insert(text.begin(), '.');  // an empty value could be taken for none
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo = {text.data(), text.size()};
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &value);
    if (status == PMIX_SUCCESS) status = PMIx_Commit();
    if (status != PMIX_SUCCESS) fail("cannot hand the job's text to the launcher", status);
  }

  void await_all(const std::string& key, Duration timeout, TimePoint deadline) const {
    const bool yes = true;
    const auto answers = std::make_shared<Answers>(1);
    call_pmix(answers, 0,
              std::make_shared<const Question>(proc(PMIX_RANK_WILDCARD), "", PMIX_COLLECT_DATA, &yes, PMIX_BOOL),
              [](const Question& question, Ticket* ticket) {
                const auto callback = [](pmix_status_t status, void* data) { Ticket::redeem(data, status); };
                return PMIx_Fence_nb(&question.whom, 1, question.how.get(), 1, callback, ticket);
              });
    const auto status = answers->wait_until(deadline).front();
    if (status == PMIX_SUCCESS) return;
    const auto missing = who_is_missing(key);
    const std::string who = fmt::format("{} of {}", missing.empty() ? "some" : list_ranks(missing), size_);
    const Rank first = missing.empty() ? kNoRank : missing.front();
    if (status && *status != PMIX_ERR_TIMEOUT) {
      throw Error(Code::peer_lost, first,
                  fmt::format("{} ended before all could meet: {}", who, PMIx_Error_string(*status)));
    }
    throw Error(Code::timeout, first,
                fmt::format("{} did not come within {:g} s (PACELINE_JOIN_TIMEOUT); every process that the launcher "
                            "starts must join",
                            who, seconds(timeout)));
  }

  // Those whose key no server has, as far as can be known in a second.
  std::vector<Rank> who_is_missing(const std::string& key) const {
    const auto answers = std::make_shared<Answers>(static_cast<std::size_t>(size_));
    const int seconds = 1;
    for (Rank rank = 0; rank < size_; ++rank) {
      call_pmix(
          answers, static_cast<std::size_t>(rank),
          std::make_shared<const Question>(proc(static_cast<pmix_rank_t>(rank)), key, PMIX_TIMEOUT, &seconds, PMIX_INT),
          [](const Question& question, Ticket* ticket) {
            const auto callback = [](pmix_status_t status, pmix_value_t*, void* data) { Ticket::redeem(data, status); };
            return PMIx_Get_nb(&question.whom, question.key.c_str(), question.how.get(), 1, callback, ticket);
          });
    }
    const auto found = answers->wait_until(SteadyClock().after(kProbeTime));
    std::vector<Rank> missing;
    for (Rank rank = 0; rank < size_; ++rank) {
      if (found[static_cast<std::size_t>(rank)] != PMIX_SUCCESS) missing.push_back(rank);
    }
    return missing;
  }

  std::string text_of_rank_0(const std::string& key) const {
    pmix_status_t status = PMIX_SUCCESS;
    const Value value = get(proc(0), key.c_str(), PMIX_BYTE_OBJECT, status);
    if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT) {
      // A fence also ends when those who have not come are dead.
      throw Error(Code::peer_lost, 0, "rank 0 has ended before the others could learn from it where to meet");
    }
    if (!value) fail("the launcher does not pass on the text of rank 0", status);
    const pmix_byte_object_t& bytes = value->data.bo;
    if (bytes.size == 0 || bytes.size > kMaxShared + 1) {
      throw Error(Code::system, fmt::format("the launcher passes on {} bytes as the text of rank 0", bytes.size));
    }
    return std::string(bytes.bytes + 1, bytes.size - 1);
  }

  pmix_proc_t self_{};
  int size_ = 1;
  int shared_ = 0;
};

}  // namespace

std::unique_ptr<Scheduler> find_scheduler(const Lookup& lookup) {
  if (started_by(lookup) != StartedBy::pmix) return nullptr;
  return std::make_unique<PmixScheduler>();
}

}  // namespace paceline
