#include "paceline/torch/table_embedding.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/core/finite.hpp"
#include "paceline/torch/tensor_view.hpp"

namespace paceline {
namespace {

// As ServerMixer: see Note [How much a worker's update counts] there. With bsp and softsync servers divide.
double share_of_gradient(const SessionOptions& options) {
  const bool stale = options.policy.kind == Policy::Kind::ssp || options.policy.kind == Policy::Kind::essp;
  return stale ? 1.0 / options.workers : 1.0;
}

const TableSpec& checked_embedding(const TableSpec& spec) {
  if (spec.kind != TableSpec::Kind::sparse)
    throw Error(Code::invalid,
                fmt::format("table '{}' of an embedding must be sparse: its rows are named by keys", spec.name));
  if (spec.rule == "add")
    throw Error(Code::invalid, fmt::format("table '{}' of an embedding is sent gradients: it needs a rule that takes "
                                           "them, such as sgd:0.1 or adagrad:0.05",
                                           spec.name));
  return spec;
}

}  // namespace

TableEmbedding::TableEmbedding(Session& session, const TableSpec& spec)
    : session_(session), table_(session.open(checked_embedding(spec))), share_(share_of_gradient(session.options())) {}

TableEmbedding::~TableEmbedding() = default;

std::span<float> TableEmbedding::floats(const torch::Tensor& rows) const {
  return {rows.data_ptr<float>(), static_cast<std::size_t>(rows.numel())};
}

// ---- reading

std::shared_ptr<const TableEmbedding::BatchKeys> TableEmbedding::unique_keys(const torch::Tensor& keys) const {
  if (keys.scalar_type() != torch::kLong || !keys.device().is_cpu())
    throw Error(Code::invalid, fmt::format("table '{}' takes keys of type int64 on the CPU", table_.spec().name));
  auto batch = std::make_shared<BatchKeys>();
  batch->given = keys.contiguous().clone();
  batch->positions = torch::empty({keys.numel()}, torch::kLong);
  const std::int64_t* given = batch->given.data_ptr<std::int64_t>();
  std::vector<std::pair<std::uint64_t, std::int64_t>> order;
  order.reserve(static_cast<std::size_t>(keys.numel()));
  for (std::int64_t i = 0; i < keys.numel(); ++i) order.emplace_back(static_cast<std::uint64_t>(given[i]), i);
  std::sort(order.begin(), order.end());
  std::int64_t* positions = batch->positions.data_ptr<std::int64_t>();
  for (const auto& [key, place] : order) {
    if (batch->unique.empty() || batch->unique.back() != key) batch->unique.push_back(key);
    positions[place] = static_cast<std::int64_t>(batch->unique.size()) - 1;
  }
  return batch;
}

TableEmbedding::Lookup TableEmbedding::begin(std::shared_ptr<const BatchKeys> keys, std::int64_t clock) {
  Lookup lookup{.keys = std::move(keys),
                .rows = {},
                .clock = clock,
                .required = must_contain(session_.options().policy, clock),
                .pull = {},
                .again = {}};
  const std::vector<std::uint64_t>& unique = lookup.keys->unique;
  lookup.rows = torch::empty({static_cast<std::int64_t>(unique.size()), spec().width});
  if (!unique.empty()) lookup.pull = table_.pull_at(unique, floats(lookup.rows), clock);
  counters_.rows_read += unique.size();
  return lookup;
}

void TableEmbedding::prefetch(const torch::Tensor& keys) {
  give_up_prefetch();
  next_ = std::make_unique<Lookup>(begin(unique_keys(keys), session_.now() + 1));
}

// What was asked for as the next step's must not be too old for this one, and must not wait for a step that has not
// ended.
bool TableEmbedding::prefetched(const torch::Tensor& keys) const {
  if (next_ == nullptr) return false;
  const std::int64_t now = session_.now();
  const std::int64_t required = must_contain(session_.options().policy, now);
  const bool fits = next_->clock <= now ? next_->required >= required : next_->required == required;
  return fits && torch::equal(next_->keys->given, keys);
}

torch::Tensor TableEmbedding::finish(Lookup lookup) {
  const Duration waited = session_.counters().waited;
  lookup.pull.wait();
  const std::vector<std::uint64_t>& all = lookup.keys->unique;
  const std::size_t width = spec().width;
  for (RowsRead& later : lookup.again) {
    later.pull.wait();
    auto at = all.begin();
    for (std::size_t i = 0; i < later.keys.size(); ++i) {
      at = std::lower_bound(at, all.end(), later.keys[i]);
      std::copy_n(later.rows.data() + i * width, width,
                  floats(lookup.rows).data() + static_cast<std::size_t>(at - all.begin()) * width);
    }
  }
  counters_.waited += session_.counters().waited - waited;
  return lookup.rows;
}

torch::Tensor TableEmbedding::forward(const torch::Tensor& keys) {
  flush();
  const bool ready = prefetched(keys);
  Lookup lookup = ready ? std::move(*std::exchange(next_, nullptr)) : begin(unique_keys(keys), session_.now());
  const std::shared_ptr<const BatchKeys> batch = lookup.keys;
  if (ready) counters_.rows_prefetched += batch->unique.size();
  torch::Tensor rows = finish(std::move(lookup));
  if (torch::GradMode::is_enabled() && !batch->unique.empty()) {
    rows.requires_grad_(true);
    // Not the rows themselves, which hold the hook.
    rows.register_hook([this, batch](const torch::Tensor& gradients) { push(batch, gradients); });
  }
  std::vector<std::int64_t> shape = keys.sizes().vec();
  shape.push_back(spec().width);
  return rows.index_select(0, batch->positions).view(shape);
}

// ---- sending

void TableEmbedding::push(const std::shared_ptr<const BatchKeys>& keys, const torch::Tensor& gradients) {
  const torch::NoGradGuard no_grad;
  torch::Tensor sent = gradients.to(torch::kFloat).contiguous();
  if (share_ != 1) sent = sent * share_;
  if (!all_finite(view_of(sent)))
    throw Error(Code::invalid, fmt::format("the gradient of rows of table '{}' has a NaN or Inf in step {}",
                                           spec().name, session_.now()));
  TablePending pending = table_.push(keys->unique, floats(sent));
  pushes_.push_back({keys, std::move(sent), std::move(pending)});
  read_own_changes(*keys);
}

// Rows that are on their way already may lack what has been pushed now; the link keeps the order, so that asking again
// is enough. With bsp they are answered when the step is over, and contain it.
void TableEmbedding::read_own_changes(const BatchKeys& pushed) {
  const Policy& policy = session_.options().policy;
  if (next_ != nullptr && session_.now() > next_->clock) give_up_prefetch();  // its step has passed without it
  if (next_ == nullptr || apply_rule(policy) == Apply::when_all_have_clocked) return;
  RowsRead changed;
  std::set_intersection(next_->keys->unique.begin(), next_->keys->unique.end(), pushed.unique.begin(),
                        pushed.unique.end(), std::back_inserter(changed.keys));
  if (changed.keys.empty()) return;
  counters_.rows_read_again += changed.keys.size();
  changed.rows.resize(changed.keys.size() * spec().width);
  RowsRead& kept = next_->again.emplace_back(std::move(changed));
  kept.pull = table_.pull(kept.keys, kept.rows);
}

void TableEmbedding::give_up_prefetch() {
  if (next_ != nullptr) given_up_.push_back(std::move(*std::exchange(next_, nullptr)));
  const auto is_here = [](Lookup& lookup) {
    return lookup.pull.test() &&
           std::all_of(lookup.again.begin(), lookup.again.end(), [](RowsRead& later) { return later.pull.test(); });
  };
  while (!given_up_.empty() && is_here(given_up_.front())) given_up_.pop_front();
}

void TableEmbedding::flush() {
  while (!pushes_.empty()) {
    Push first = std::move(pushes_.front());
    pushes_.pop_front();
    first.pending.wait();
  }
}

}  // namespace paceline
