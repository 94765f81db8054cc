#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/collective/cost.hpp"

namespace paceline {
namespace {

// Medians, because on a busy machine a sample can be any number of time slices too long. An odd number has one.
constexpr int kSamples = 15;
constexpr int kRoundTrips = 8;             // a sample of small messages must be much longer than a look at the clock
constexpr std::size_t kFloats = 64 << 10;  // 256 KiB: one segment, and at home in a second-level cache
// The sim fabric computes in no time, and noise can eat a difference of two times: what was not seen is not free.
constexpr double kLeast = 1e-13;

double at_least(double least, double measured) { return std::isfinite(measured) ? std::max(least, measured) : least; }
// A byte that moves from rank to rank costs no less than half of what adding one in the own cache does. That is
// measured without anybody else and so holds on a busy machine, too.
double per_byte_moved(double measured, const CostModel& model) { return at_least(model.gamma / 2, measured); }

double median_seconds(const Clock& clock, const std::function<void()>& work) {
  work();  // warm
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) {
    const TimePoint start = clock.now();
    work();
    samples.push_back(seconds(clock.now() - start));
  }
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

// One message there, one back: the least that a collective does.
double one_way(Communicator& pair, std::vector<float>& data, int trips) {
  const double all = median_seconds(pair.endpoint().clock(), [&] {
    for (int trip = 0; trip < trips; ++trip) {
      pair.broadcast(view(data), 0, {.algorithm = Algorithm::star});
      pair.broadcast(view(data), 1, {.algorithm = Algorithm::star});
    }
  });
  return all / (2 * trips);
}

void measure_messages(Communicator& pair, const CostModel& model, double& alpha, double& beta) {
  std::vector<float> small(1), large(kFloats);
  alpha = at_least(kLeast, one_way(pair, small, kRoundTrips));
  const double bytes = static_cast<double>(kFloats * sizeof(float));
  beta = per_byte_moved((one_way(pair, large, 1) - alpha) / bytes, model);
}

// Of all ranks, two of which measure while the others sleep; what the first of them saw is what all get.
void measure_pair(Communicator& all, int first, int second, const CostModel& model, double& alpha, double& beta) {
  const bool in_pair = all.rank() == first || all.rank() == second;
  Communicator pair = all.split(in_pair ? 0 : 1, 0);
  if (in_pair) measure_messages(pair, model, alpha, beta);
  all.barrier();
  std::vector<double> seen = {alpha, beta};
  all.broadcast(view(seen), first);
  alpha = seen[0];
  beta = seen[1];
}

void measure_adding(const Clock& clock, CostModel& model) {
  std::vector<float> into(kFloats), piece(kFloats, 1);
  const CombineKernel add = combine_kernel(ReduceOp::sum, DType::f32);
  const auto bytes = kFloats * sizeof(float);
  const double time = median_seconds(clock, [&] {
    add(reinterpret_cast<std::byte*>(into.data()), reinterpret_cast<const std::byte*>(piece.data()), bytes);
  });
  model.gamma = at_least(kLeast, time / static_cast<double>(bytes));
}

// By the model an shm allreduce takes two meetings and, with all ranks on cores of their own, direct · S: what a long
// one takes more than a short one.
void measure_direct(Communicator& all, double share, CostModel& model) {
  Endpoint& endpoint = all.endpoint();
  const Arena arena = endpoint.allocate(kFloats * sizeof(float));
  const auto memory = arena.as<float>();
  const auto time = [&](std::size_t floats) {
    return median_seconds(endpoint.clock(), [&] {
      all.allreduce(view(memory.first(floats)), ReduceOp::sum, {.algorithm = Algorithm::shm});
    });
  };
  const double few = time(1), many = time(kFloats);
  const double bytes = static_cast<double>((kFloats - 1) * sizeof(float));
  model.direct = per_byte_moved((many - few) / bytes / share, model);
  all.barrier();  // peers may look into the arena until they are here
}

// A barrier with more ranks than cores: each of its rounds is a message and a change of the running process.
void measure_switch(Communicator& all, CostModel& model) {
  const double rounds = static_cast<double>(std::bit_width(static_cast<unsigned>(all.size() - 1)));
  const double time = median_seconds(all.endpoint().clock(), [&] { all.barrier(); });
  model.switch_cost = at_least(kLeast, time / rounds - model.alpha);
}

}  // namespace

// Every rank measures, because a collective needs all of them; what one saw is what all get. What cannot be seen here,
// such as a network where there is one host, keeps its default.
CostModel measure_cost(Communicator& communicator) {
  CostModel model;
  const Transport::Facts& facts = communicator.endpoint().facts();
  measure_adding(communicator.endpoint().clock(), model);
  std::vector<int> hosts;
  for (const Rank rank : communicator.group().ranks()) hosts.push_back(facts.hosts[static_cast<std::size_t>(rank)]);
  const auto far =
      static_cast<int>(std::find_if(hosts.begin(), hosts.end(), [&](int h) { return h != hosts[0]; }) - hosts.begin());
  const auto near = static_cast<int>(std::find(hosts.begin() + 1, hosts.end(), hosts[0]) - hosts.begin());
  if (near < communicator.size()) measure_pair(communicator, 0, near, model, model.alpha, model.beta);
  if (far < communicator.size()) measure_pair(communicator, 0, far, model, model.net_alpha, model.net_beta);
  if (communicator.size() > 1) {
    std::vector<double> agreed = {static_cast<double>(facts.cores), facts.mapped_memory ? 1.0 : 0.0};
    communicator.broadcast(view(agreed), 0);
    const Crowd crowd{communicator.size(), static_cast<int>(agreed[0]), hosts};
    const double share = std::max(1.0, static_cast<double>(crowd.most_on_a_host()) / crowd.cores);
    const bool one_host = far == communicator.size();
    if (one_host && agreed[1] > 0) measure_direct(communicator, share, model);
    if (one_host && share > 1) measure_switch(communicator, model);
  }
  std::vector<double> constants = {model.gamma, model.direct, model.switch_cost};
  communicator.broadcast(view(constants), 0);
  model.gamma = constants[0];
  model.direct = constants[1];
  model.switch_cost = constants[2];
  return model;
}

}  // namespace paceline
