#include "paceline/server/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/server/session_state.hpp"

namespace paceline {
namespace {

constexpr int kLooks = 1000;  // of get_together

void check_floats(const TableSpec& spec, std::uint64_t rows, std::size_t floats) {
  if (floats == rows * spec.width) return;
  throw Error(Code::invalid, fmt::format("table '{}': {} rows of {} floats are {} floats, not {}", spec.name, rows,
                                         spec.width, rows * spec.width, floats));
}

void check_kind(const TableSpec& spec, TableSpec::Kind kind) {
  if (spec.kind == kind) return;
  throw Error(Code::invalid,
              fmt::format("table '{}' is {}", spec.name,
                          spec.kind == TableSpec::Kind::dense ? "dense: its rows are named by a range, not by keys"
                                                              : "sparse: its rows are named by keys, not by a range"));
}

void check_range(const TableSpec& spec, RowRange rows, std::size_t floats) {
  check_kind(spec, TableSpec::Kind::dense);
  if (rows.first > rows.last || rows.last > spec.rows)
    throw Error(Code::invalid,
                fmt::format("table '{}' has rows 0 to {}, not {} to {}", spec.name, spec.rows, rows.first, rows.last));
  check_floats(spec, rows.size(), floats);
}

void check_keys(const TableSpec& spec, std::size_t keys, std::size_t floats) {
  check_kind(spec, TableSpec::Kind::sparse);
  check_floats(spec, keys, floats);
}

void check_adds(const TableSpec& spec) {
  if (spec.rule == "add") return;
  throw Error(Code::invalid,
              fmt::format("table '{}' has the rule {}: gradients are pushed to it, changes are not added", spec.name,
                          spec.rule));
}

void add(std::span<float> into, std::span<const float> changes) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += changes[i];
}

}  // namespace

// ---- TablePending

TablePending::TablePending() = default;
TablePending::TablePending(TablePending&&) noexcept = default;
TablePending& TablePending::operator=(TablePending&&) noexcept = default;
TablePending::~TablePending() = default;
TablePending::TablePending(std::unique_ptr<State> state) : state_(std::move(state)) {}
std::unique_ptr<TablePending::State> TablePending::release() { return std::move(state_); }

bool TablePending::test() {
  if (state_ == nullptr) return true;
  state_->session->endpoint.progress();
  return std::all_of(state_->flights.begin(), state_->flights.end(),
                     [](const auto& flight) { return flight->ended || flight->receive.done(); });
}

void TablePending::wait() {
  if (state_ == nullptr) return;
  const auto state = std::exchange(state_, nullptr);
  if (!state->clock) return state->session->wait(*state);
  state->session->wait_timed(*state);
  state->session->note_read(state->session->contained_in(*state),
                            must_contain(state->session->options.policy, *state->clock));
}

// ---- push, pull

const TableSpec& Table::spec() const { return state_->spec; }

TablePending Table::set(Keys keys, std::span<const float> values) {
  check_keys(spec(), keys.size(), values.size());
  auto request = session_->request(*state_);
  session_->ask_keys(*request, Verb::put, keys, values, {}, 0, 0);
  return TablePending(std::move(request));
}

TablePending Table::set(RowRange rows, std::span<const float> values) {
  check_range(spec(), rows, values.size());
  auto request = session_->request(*state_);
  session_->ask_range(*request, Verb::put, rows, values, {}, 0, 0);
  return TablePending(std::move(request));
}

TablePending Table::push(Keys keys, std::span<const float> values, double rate) {
  check_keys(spec(), keys.size(), values.size());
  auto request = session_->request(*state_);
  session_->ask_keys(*request, Verb::push, keys, values, {}, rate, 0);
  return TablePending(std::move(request));
}

TablePending Table::push(RowRange rows, std::span<const float> values, double rate) {
  check_range(spec(), rows, values.size());
  auto request = session_->request(*state_);
  session_->ask_range(*request, Verb::push, rows, values, {}, rate, 0);
  return TablePending(std::move(request));
}

TablePending Table::pull(Keys keys, std::span<float> into) {
  check_keys(spec(), keys.size(), into.size());
  auto request = session_->request(*state_);
  session_->ask_keys(*request, Verb::pull, keys, {}, into, 0, 0);
  return TablePending(std::move(request));
}

TablePending Table::pull(RowRange rows, std::span<float> into) {
  check_range(spec(), rows, into.size());
  auto request = session_->request(*state_);
  session_->ask_range(*request, Verb::pull, rows, {}, into, 0, 0);
  return TablePending(std::move(request));
}

TablePending Table::pull_at(RowRange rows, std::span<float> into, std::int64_t clock) {
  check_range(spec(), rows, into.size());
  auto request = session_->request(*state_);
  request->clock = clock;
  session_->ask_range(*request, Verb::pull, rows, {}, into, 0, must_contain(session_->options.policy, clock));
  return TablePending(std::move(request));
}

TablePending Table::pull_at(Keys keys, std::span<float> into, std::int64_t clock) {
  check_keys(spec(), keys.size(), into.size());
  auto request = session_->request(*state_);
  request->clock = clock;
  session_->ask_keys(*request, Verb::pull, keys, {}, into, 0, must_contain(session_->options.policy, clock));
  return TablePending(std::move(request));
}

// Both leave at once; the link keeps them in order, and the pull's keys are remembered from the push.
TablePending Table::push_pull(Keys keys, std::span<const float> values, std::span<float> into, double rate) {
  check_keys(spec(), keys.size(), values.size());
  check_floats(spec(), keys.size(), into.size());
  auto request = session_->request(*state_);
  session_->ask_keys(*request, Verb::push, keys, values, {}, rate, 0);
  session_->ask_keys(*request, Verb::pull, keys, {}, into, 0, 0);
  return TablePending(std::move(request));
}

TablePending Table::push_pull(RowRange rows, std::span<const float> values, std::span<float> into, double rate) {
  check_range(spec(), rows, values.size());
  check_floats(spec(), rows.size(), into.size());
  auto request = session_->request(*state_);
  session_->ask_range(*request, Verb::push, rows, values, {}, rate, 0);
  session_->ask_range(*request, Verb::pull, rows, {}, into, 0, 0);
  return TablePending(std::move(request));
}

// ---- inc

void Table::inc(Keys keys, std::span<const float> changes) {
  check_adds(spec());
  check_keys(spec(), keys.size(), changes.size());
  const bool steps_wait = apply_rule(session_->options.policy) == Apply::when_all_have_clocked;
  auto request = session_->request(*state_);
  request->copies = steps_wait;
  session_->push_changes(*request, keys, session_->sift(*request, keys, changes));
  session_->let_go(std::move(request));
  if (!steps_wait) return;
  const std::size_t width = spec().width;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::vector<float>& row = state_->own_rows[keys[i]];
    row.resize(width);
    add(row, changes.subspan(i * width, width));
  }
}

void Table::inc(RowRange rows, std::span<const float> changes) {
  check_adds(spec());
  check_range(spec(), rows, changes.size());
  auto request = session_->request(*state_);
  request->copies = apply_rule(session_->options.policy) == Apply::when_all_have_clocked;
  const std::span<const float> sifted = session_->sift(*request, rows, changes);
  session_->push_changes(*request, rows, sifted);
  session_->note_own(*state_, *request, rows, sifted);
  session_->let_go(std::move(request));
}

// ---- get

void Table::get(Keys keys, std::span<float> into) {
  check_keys(spec(), keys.size(), into.size());
  session_->reap();
  const std::int64_t required = must_contain(session_->options.policy, session_->now);
  auto request = session_->request(*state_);
  session_->ask_keys(*request, Verb::pull, keys, {}, into, 0, required);
  session_->wait_timed(*request);
  session_->note_read(session_->contained_in(*request), required);
  const std::size_t width = spec().width;
  for (std::size_t i = 0; !state_->own_rows.empty() && i < keys.size(); ++i) {
    const auto own = state_->own_rows.find(keys[i]);
    if (own != state_->own_rows.end()) add(into.subspan(i * width, width), own->second);
  }
  state_->kept.add_to(keys, width, into);
}

void Table::get(RowRange rows, std::span<float> into) {
  check_range(spec(), rows, into.size());
  session_->reap();
  session_->keeps_copies() ? session_->read_copy(*state_, rows, into) : session_->read_servers(*state_, rows, into);
  state_->kept.add_to(rows, spec().width, into);
}

void Table::get_latest(RowRange rows, std::span<float> into) {
  check_range(spec(), rows, into.size());
  session_->reap();
  if (session_->keeps_copies()) {
    session_->renew_copy(*state_);
    session_->copy_out(*state_, rows, into);
  } else {
    pull(rows, into).wait();
  }
  state_->kept.add_to(rows, spec().width, into);
}

void Table::get_together(Keys keys, std::span<float> into) {
  get(keys, into);
  for (int look = 0; look < kLooks; ++look) {
    const auto before = session_->versions_of(*state_);
    get(keys, into);
    if (before == session_->versions_of(*state_)) return;
  }
  throw Error(Code::timeout, fmt::format("table '{}' changed between any two looks at {} rows, {} times", spec().name,
                                         keys.size(), kLooks));
}

Staleness Table::updates_missed() { return session_->updates_missed(*state_); }

}  // namespace paceline
