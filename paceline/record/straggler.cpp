#include "paceline/record/straggler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "paceline/record/figures.hpp"

namespace paceline {
namespace {

constexpr double kClearlyLonger = 1.15;    // times the median of the others
constexpr double kWorthNaming = 0.05;      // of the training time; less is not worth a hunt
constexpr double kNoticeableWait = 0.05;   // of the others' time
constexpr double kLargestRatio = 100;      // beyond, the median is as good as nothing
constexpr std::size_t kListedWorkers = 8;  // beyond, they are counted
constexpr Activity kOwnWork[] = {Activity::load, Activity::compute, Activity::update};

double own_work(const WorkerTime& worker) {
  double sum = 0;
  for (const Activity activity : kOwnWork) sum += worker.in(activity);
  return sum;
}

// Of all workers but one. The mean of the middle two would let one slow worker of two hide itself; so does its own
// time.
template <typename Value>
double median_of_others(const std::vector<WorkerTime>& workers, Rank without, Value value) {
  std::vector<double> values;
  for (const WorkerTime& worker : workers) {
    if (worker.rank != without) values.push_back(value(worker));
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool stands_out(const std::vector<WorkerTime>& workers, const WorkerTime& worker) {
  const double median = median_of_others(workers, worker.rank, own_work);
  const double more = own_work(worker) - median;
  return own_work(worker) > kClearlyLonger * median && more > kWorthNaming * worker.total();
}

std::vector<WorkerTime> slow_workers(const std::vector<WorkerTime>& workers) {
  std::vector<WorkerTime> slow;
  for (const WorkerTime& worker : workers) {
    if (stands_out(workers, worker)) slow.push_back(worker);
  }
  std::stable_sort(slow.begin(), slow.end(), [](const auto& a, const auto& b) { return own_work(a) > own_work(b); });
  return slow;
}

std::string_view verb(Activity activity) {
  switch (activity) {
    case Activity::load: return "waits for data";
    case Activity::update: return "updates its weights";
    default: return "computes";
  }
}

std::string place(const WorkerTime& worker) {
  return worker.host.empty() ? fmt::format("rank {}", worker.rank)
                             : fmt::format("rank {} on host {}", worker.rank, worker.host);
}

// In which part of its own work the worker loses most against the others.
Activity main_loss(const std::vector<WorkerTime>& workers, const WorkerTime& slow) {
  const auto loss = [&](Activity activity) {
    const auto in_it = [activity](const WorkerTime& worker) { return worker.in(activity); };
    return slow.in(activity)-median_of_others(workers, slow.rank, in_it);
  };
  return *std::max_element(std::begin(kOwnWork), std::end(kOwnWork),
                           [&](Activity a, Activity b) { return loss(a) < loss(b); });
}

std::string comparison(const std::vector<WorkerTime>& workers, const WorkerTime& slow) {
  const Activity activity = main_loss(workers, slow);
  const auto in_it = [activity](const WorkerTime& worker) { return worker.in(activity); };
  const double median = median_of_others(workers, slow.rank, in_it);
  const double ratio = median > 0 ? slow.in(activity) / median : kLargestRatio + 1;
  const std::string times = ratio > kLargestRatio ? "more than 100×" : fmt::format("{:.1f}×", ratio);
  return fmt::format("{} {} {} as long as {} ({} against {})", place(slow), verb(activity), times,
                     workers.size() == 2 ? "the other" : "the median of the others", time_span(slow.in(activity)),
                     time_span(median));
}

std::string waiting(const std::vector<WorkerTime>& workers, Rank straggler) {
  const double share = median_of_others(workers, straggler, [](const WorkerTime& w) { return w.wait_share(); });
  if (share < kNoticeableWait) return "; the others hardly wait for it";
  if (workers.size() == 2) return fmt::format("; the other waits for it {} of its time", percent(share, 0));
  return fmt::format("; the others wait for it {} of their time", percent(share, 0));
}

std::string further(const std::vector<WorkerTime>& slow) {
  if (slow.size() < 2) return {};
  if (slow.size() - 1 > kListedWorkers) return fmt::format(" {} more workers are slow too.", slow.size() - 1);
  std::string list;
  for (std::size_t i = 1; i < slow.size(); ++i) list += fmt::format("{}rank {}", i == 1 ? "" : ", ", slow[i].rank);
  return fmt::format(" Slow too: {}.", list);
}

std::string nobody(const std::vector<WorkerTime>& workers) {
  double waiting = 0, all = 0;
  for (const WorkerTime& worker : workers) {
    waiting += worker.in(Activity::wait);
    all += worker.total();
  }
  return fmt::format("no worker stands out; waiting takes {} of the workers' time",
                     percent(all > 0 ? waiting / all : 0));
}

}  // namespace

std::vector<WorkerTime> worker_totals(const std::vector<EpochMetrics>& epochs) {
  std::map<Rank, WorkerTime> totals;
  for (const EpochMetrics& epoch : epochs) {
    for (const WorkerTime& worker : epoch.workers) {
      WorkerTime& total = totals[worker.rank];
      total.rank = worker.rank;
      total.host = worker.host;
      for (std::size_t i = 0; i < total.seconds.size(); ++i) total.seconds[i] += worker.seconds[i];
    }
  }
  std::vector<WorkerTime> ordered;
  for (auto& [rank, total] : totals) ordered.push_back(std::move(total));
  return ordered;
}

StragglerVerdict find_straggler(const std::vector<WorkerTime>& workers) {
  if (workers.empty()) return {.sentence = "no times of workers were recorded"};
  if (workers.size() == 1) return {.sentence = "a single worker: there is nobody to wait for"};
  const std::vector<WorkerTime> slow = slow_workers(workers);
  if (slow.empty()) return {.sentence = nobody(workers)};
  const WorkerTime& worst = slow.front();
  return {.sentence = comparison(workers, worst) + waiting(workers, worst.rank) + "." + further(slow),
          .straggler = worst.rank};
}

}  // namespace paceline
