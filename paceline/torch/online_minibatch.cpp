#include "paceline/torch/online_minibatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/check.hpp"
#include "paceline/core/error.hpp"

namespace paceline {

double OnlineCounters::mu() const {
  return batches > 0 ? static_cast<double>(passed()) / static_cast<double>(batches) : 0;
}

double OnlineCounters::mean_loss() const {
  const std::int64_t all = learned + passed();
  return all > 0 ? (learned_loss + passed_loss) / static_cast<double>(all) : 0;
}

std::string OnlineCounters::text() const {
  const double all = static_cast<double>(std::max<std::int64_t>(1, learned + passed()));
  return fmt::format(
      "online: {} inputs in {:.1f} s, of which {:.1f}% only predicted (mu {:.1f} per batch); mean loss {:.4f}",
      learned + passed(), seconds, 100 * static_cast<double>(passed()) / all, mu(), mean_loss());
}

nlohmann::ordered_json to_json(const OnlineCounters& counters, std::int64_t batch) {
  return {{"batch", batch},
          {"mu", counters.mu()},
          {"batches", counters.batches},
          {"learned", counters.learned},
          {"passed_computing", counters.passed_computing},
          {"passed_travelling", counters.passed_travelling},
          {"learned_loss", counters.learned_loss},
          {"passed_loss", counters.passed_loss},
          {"mean_loss", counters.mean_loss()},
          {"seconds", counters.seconds}};
}

OnlineMinibatch::OnlineMinibatch(double rate, std::int64_t batch) : rate_(rate), batch_(batch) {
  if (!(rate > 0) || !std::isfinite(rate) || batch < 1)
    throw Error(Code::invalid, fmt::format("a stream needs a rate above 0 and batches of at least one input; these are "
                                           "{} inputs/s in batches of {}",
                                           rate, batch));
}

// An input that arrives at this very moment has arrived, also if rounding says a billionth later.
std::int64_t OnlineMinibatch::arrived_by(double time) const {
  const double inputs = time * rate_;
  return static_cast<std::int64_t>(std::floor(inputs + 1e-9 * std::max(1.0, inputs)));
}

InputRange OnlineMinibatch::next() {
  current_ = {free_, free_ + batch_};
  return current_;
}

InputRange OnlineMinibatch::passed(Duration compute, Duration travel) {
  CHECK(compute >= Duration(0) && travel >= Duration(0), "time does not run backwards");
  const double full = static_cast<double>(current_.last) / rate_;
  const double computed = std::max(full, now_ + seconds(compute));
  now_ = computed + seconds(travel);
  const std::int64_t then = std::max(current_.last, arrived_by(computed));
  const InputRange missed{current_.last, std::max(then, arrived_by(now_))};
  ++counters_.batches;
  counters_.learned += batch_;
  counters_.passed_computing += then - current_.last;
  counters_.passed_travelling += missed.last - then;
  counters_.seconds = now_;
  free_ = missed.last;
  return missed;
}

void OnlineMinibatch::count_losses(double learned, double passed) {
  counters_.learned_loss += learned;
  counters_.passed_loss += passed;
}

}  // namespace paceline
