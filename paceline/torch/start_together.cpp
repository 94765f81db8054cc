#include "paceline/torch/start_together.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/core/error.hpp"
#include "paceline/data/open.hpp"
#include "paceline/torch/run_folder.hpp"
#include "paceline/torch/tensor_collectives.hpp"
#include "paceline/torch/worker_threads.hpp"

namespace paceline {
namespace {

// Beside DataParallel's own, which comes later.
Communicator meeting_of(Job& job) { return Communicator::beside(job.endpoint(), job.group(), "start"); }

void refuse_first(Communicator& world, const std::string& refusal) {
  const auto all = allgather(world, refusal, {.name = "refusals"});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) throw Error(Code::invalid, static_cast<Rank>(rank), all[rank]);
  }
}

bool several_hosts(Job& job) { return job.local_size() < job.size(); }

// With the host, where there is more than one.
std::string on_this_host(Job& job, const std::string& sentence) {
  return several_hosts(job) ? fmt::format("{}: {}", job.endpoint().describe(job.rank()), sentence) : sentence;
}

int own_threads(Communicator& world, Job& job) {
  const Cores own = allowed_cores();
  const auto all = allgather(world, fmt::format("{}", fmt::join(own, ",")), {.name = "cores"});
  const auto& hosts = job.endpoint().facts().hosts;
  std::vector<Cores> of_host;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (hosts[rank] == hosts[static_cast<std::size_t>(job.rank())]) of_host.push_back(parse_core_list(all[rank]));
  }
  return fair_threads(own, of_host, core_quota());
}

}  // namespace

void refuse_together(Job& job, const std::string& refusal) {
  Communicator world = meeting_of(job);
  refuse_first(world, refusal);
}

std::optional<Sites> find_sites_together(Job& job, const TrainConfig& config) {
  if (config.between_sites.empty()) return std::nullopt;
  Communicator world = meeting_of(job);
  const auto names = allgather(world, job.host(), {.name = "hosts"});
  std::optional<Sites> sites;
  std::string refusal;
  try {
    sites = parse_sites(config.sites, job.endpoint().facts().hosts, names);
  } catch (const Error& error) {
    refusal = error.what();
  }
  refuse_first(world, refusal);
  return sites;
}

DataSplit open_data_together(Job& job, const std::string& spec) {
  Communicator world = meeting_of(job);
  std::optional<DataSplit> data;
  std::string refusal;
  try {
    data = open_data(spec);
  } catch (const Error& error) {
    refusal = on_this_host(job, error.what());
  }
  refuse_first(world, refusal);
  const auto prints = allgather(world, std::to_string(data->fingerprint), {.name = "the data's fingerprint"});
  const bool same = prints[static_cast<std::size_t>(job.rank())] == prints[0];
  refuse_first(world, same ? ""
                           : fmt::format("the data '{}' of {} is not that of {}: every host needs the same files", spec,
                                         job.endpoint().describe(job.rank()), job.endpoint().describe(0)));
  return std::move(*data);
}

void settle_together(Job& job, TrainConfig& config, const DataSplit& data) {
  Communicator world = meeting_of(job);
  config.workers = job.size();
  if (config.threads == 0) {
    config.threads = own_threads(world, job);
    limit_threads(config.threads);
  }
  std::string refusal;
  try {
    if (job.rank() == 0) settle(config, data);
  } catch (const Error& error) {
    refusal = on_this_host(job, error.what());
  }
  refuse_first(world, refusal);
  std::string text = job.rank() == 0 ? to_json(config).dump() : std::string();
  broadcast(world, text, 0, {.name = "configuration"});
  config = train_config_from(nlohmann::json::parse(text, nullptr, false));
}

}  // namespace paceline
