#include "paceline/server/update_filter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLooks = 64;  // rows that are looked at before all are

bool all_zeros(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float value) { return value == 0; });
}

bool is_shorter(std::size_t kept, std::size_t rows, std::size_t width) {
  return kept * (sizeof(std::uint64_t) + width * sizeof(float)) < rows * width * sizeof(float);
}

void add(std::span<float> into, std::span<const float> changes) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += changes[i];
}

}  // namespace

bool may_drop_zeros(const TableSpec& spec, const Policy& policy) {
  return spec.rule == "add" && spec.storage == DType::f32 && spec.compensation == 0 && spec.admit_after <= 1 &&
         spec.expire_after == 0 && apply_rule(policy) != Apply::after_so_many;
}

void check(const FilterOptions& filter, const TableSpec& spec, const Policy& policy) {
  if (!(filter.threshold >= 0) || std::isinf(filter.threshold) || filter.flush_every < 1)
    throw Error(Code::invalid, fmt::format("table '{}': changes of at most {} are to be kept back for {} clocks; write "
                                           "a number from 0, and clocks from 1",
                                           spec.name, filter.threshold, filter.flush_every));
  if (filter.threshold == 0) return;
  if (!filter.zeros || !may_drop_zeros(spec, policy))
    throw Error(
        Code::invalid,
        fmt::format("table '{}': small changes are kept back only where zeros need not be sent: with the rule "
                    "add, values in f32, without admission, expiry and delay compensation, and not with softsync",
                    spec.name));
  if (apply_rule(policy) == Apply::when_all_have_clocked)
    throw Error(Code::invalid, fmt::format("table '{}': {} promises every update of a step to all; small changes are "
                                           "kept back with ssp, essp and async only",
                                           spec.name, policy.text()));
}

std::optional<std::vector<std::uint32_t>> rows_worth_sending(std::span<const float> values, std::size_t width) {
  const std::size_t rows = values.size() / width;
  const auto is_zero = [&](std::size_t row) { return all_zeros(values.subspan(row * width, width)); };
  const std::size_t looks = std::min(rows, kLooks);
  std::size_t seen = 0;
  for (std::size_t look = 0; look < looks; ++look) seen += is_zero(look * rows / looks) ? 0 : 1;
  if (!is_shorter(seen, looks, width)) return std::nullopt;
  std::vector<std::uint32_t> kept;
  for (std::size_t row = 0; row < rows; ++row) {
    if (!is_zero(row)) kept.push_back(static_cast<std::uint32_t>(row));
  }
  if (!is_shorter(kept.size(), rows, width)) return std::nullopt;
  return kept;
}

// ---- KeptBack

bool KeptBack::sift_row(std::span<float> kept, std::span<const float> change, float threshold, std::span<float> out) {
  add(kept, change);
  // Written so that what is not a number does not wait.
  const bool small = std::all_of(kept.begin(), kept.end(), [&](float value) { return std::abs(value) <= threshold; });
  if (small) {
    const bool nothing = all_zeros(kept);
    rows_ += nothing ? 0 : 1;
    any_ |= !nothing;
    return false;
  }
  std::copy(kept.begin(), kept.end(), out.begin());
  std::fill(kept.begin(), kept.end(), 0.0F);
  return true;
}

std::vector<float> KeptBack::sift(const TableSpec& spec, RowRange rows, std::span<const float> changes,
                                  float threshold) {
  dense_.resize(spec.elements());
  std::vector<float> out(changes.size());
  const std::size_t width = spec.width;
  for (std::uint64_t row = 0; row < rows.size(); ++row) {
    const std::span<float> kept = std::span(dense_).subspan((rows.first + row) * width, width);
    sift_row(kept, changes.subspan(row * width, width), threshold, std::span(out).subspan(row * width, width));
  }
  return out;
}

std::vector<float> KeptBack::sift(const TableSpec& spec, Keys keys, std::span<const float> changes, float threshold) {
  std::vector<float> out(changes.size());
  const std::size_t width = spec.width;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto kept = sparse_.try_emplace(keys[i], width).first;
    if (sift_row(kept->second, changes.subspan(i * width, width), threshold, std::span(out).subspan(i * width, width)))
      sparse_.erase(kept);
  }
  return out;
}

void KeptBack::add_to(RowRange rows, std::size_t width, std::span<float> values) const {
  if (any_) add(values, std::span(dense_).subspan(rows.first * width, rows.size() * width));
}

void KeptBack::add_to(Keys keys, std::size_t width, std::span<float> values) const {
  for (std::size_t i = 0; any_ && i < keys.size(); ++i) {
    const auto kept = sparse_.find(keys[i]);
    if (kept != sparse_.end()) add(values.subspan(i * width, width), kept->second);
  }
}

std::optional<KeptBack::All> KeptBack::take() {
  if (!std::exchange(any_, false)) return std::nullopt;
  All all;
  for (const auto& [key, row] : sparse_) all.keys.push_back(key);
  std::sort(all.keys.begin(), all.keys.end());
  all.values = std::exchange(dense_, {});
  for (const std::uint64_t key : all.keys) {
    const std::vector<float>& row = sparse_.at(key);
    all.values.insert(all.values.end(), row.begin(), row.end());
  }
  sparse_.clear();
  return all;
}

}  // namespace paceline
