#include "paceline/torch/data_parallel.hpp"

#include <utility>

#include "paceline/torch/data_parallel_state.hpp"

namespace paceline {

DataParallel::DataParallel(Job& job, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                           std::string_view plan, DataParallelOptions options)
    : DataParallel(job.endpoint(), job.group(), model, optimizer, plan, std::move(options)) {}

DataParallel::DataParallel(Endpoint& endpoint, const Group& group, torch::nn::Module& model,
                           torch::optim::Optimizer& optimizer, std::string_view plan, DataParallelOptions options)
    : state_(std::make_unique<State>(endpoint, group, model, optimizer, plan, std::move(options))) {}

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
void DataParallel::set_steps(std::int64_t steps) { state_->steps = steps; }
std::size_t DataParallel::buckets() const { return state_->buckets(); }
Communicator& DataParallel::communicator() { return state_->user; }

ParallelTimes DataParallel::times() const { return state_->times(); }

}  // namespace paceline
