#include "paceline/torch/data_parallel.hpp"

#include <utility>

#include "paceline/torch/data_parallel_state.hpp"
#include "paceline/torch/server_side.hpp"

namespace paceline {

DataParallel::DataParallel(Job& job, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                           std::string_view plan, DataParallelOptions options)
    : servers_(ServerSide::of(job, parse_plan(plan))),
      state_(std::make_unique<State>(servers_ ? servers_->endpoint() : job.endpoint(), job.group(), model, optimizer,
                                     plan, std::move(options), servers_ ? servers_->ranks() : std::vector<Rank>())) {}

DataParallel::DataParallel(Endpoint& endpoint, const Group& group, torch::nn::Module& model,
                           torch::optim::Optimizer& optimizer, std::string_view plan, DataParallelOptions options)
    : state_(
          std::make_unique<State>(endpoint, group, model, optimizer, plan, std::move(options), std::vector<Rank>())) {}

DataParallel::~DataParallel() = default;

DataParallel::NoSync::NoSync(DataParallel& parallel) : parallel_(parallel) { ++parallel_.state_->no_sync; }
DataParallel::NoSync::~NoSync() { --parallel_.state_->no_sync; }

void DataParallel::step() { state_->step(); }
torch::Tensor DataParallel::step(const std::function<torch::Tensor()>& closure) { return state_->step(closure); }
void DataParallel::finish() { state_->finish(); }
double DataParallel::clip_grad_norm(double max_norm) { return state_->clip_grad_norm(max_norm); }
void DataParallel::drain(const std::function<void()>& between) { state_->drain(between); }
void DataParallel::join(const std::function<void()>& between) { state_->join(between); }
void DataParallel::lend() { state_->lend(); }
std::size_t DataParallel::delay_bytes() const { return state_->delay_bytes(); }
void DataParallel::sync_buffers() { state_->sync_buffers(); }
void DataParallel::sync_optimizer() { state_->sync_optimizer(); }
void DataParallel::check_replicas() { state_->check_replicas(); }
std::int64_t DataParallel::steps() const { return state_->steps; }
void DataParallel::set_steps(std::int64_t steps) { state_->set_steps(steps); }
bool DataParallel::met() const { return state_->met(); }
bool DataParallel::takes_part() { return state_->takes_part(); }
std::optional<ServerStatistics> DataParallel::server_statistics() { return state_->server_statistics(); }
void DataParallel::note_loss(double loss) { state_->note_loss(loss); }
std::vector<std::string> DataParallel::take_remarks() { return state_->take_remarks(); }
Session& DataParallel::session() { return state_->session(); }
std::vector<Table> DataParallel::server_tables() { return state_->server_tables(); }
std::size_t DataParallel::buckets() const { return state_->buckets(); }
Communicator& DataParallel::communicator() { return state_->user; }

ParallelTimes DataParallel::times() const { return state_->times(); }

}  // namespace paceline
