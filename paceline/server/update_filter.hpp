// UpdateFilter: what of a worker's changes need not be sent. Rows whose change is all zeros add nothing; small changes
// can wait until, added up, they are worth a message (Li et al. 2014, "user-defined filters"; the significance filter
// of Hsieh et al. 2017). Pure functions, and KeptBack, which belongs to one thread.
//
// Note [Dropping zeros]. x + 0 has the bits of x for every float x but -0. Tables whose rule is add hold no -0: initial
// values and `put` are made without it, and a sum is -0 only if both its terms are. So a zero that is not added leaves
// the same bits, whatever the policy. What is dropped is not seen by the server, though, so zeros are sent where it
// counts updates (softsync, admission), where they keep rows alive (expiry), where it computes with them (delay
// compensation), and where it rounds to f16 or bf16, which makes -0 out of small numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "paceline/server/placement.hpp"
#include "paceline/server/table_spec.hpp"
#include "paceline/sync/policy.hpp"

namespace paceline {

// Of Table::inc, as its worker opens the table; workers may differ. push is never filtered.
struct FilterOptions {
  bool zeros = true;  // rows of zeros are not sent where nobody can tell, and where that makes the message shorter
  // Rows whose changes are all of at most this size are kept back and added up until they are more. The worker's own
  // gets contain them; others' do at most `flush_every` - 1 clocks late: ssp:S promises them what ssp:(S + flush_every
  // - 1) does. 0: none.
  float threshold = 0;
  int flush_every = 16;  // clocks after which what is kept back is sent; also at flush() and leave()
};

// See Note [Dropping zeros].
bool may_drop_zeros(const TableSpec& spec, const Policy& policy);
// Throws Error{invalid}: a threshold where zeros must be sent or where the policy lets no update be late (bsp).
void check(const FilterOptions& filter, const TableSpec& spec, const Policy& policy);

// The rows that are not all zeros, if they with 8 bytes for the number of each are shorter than all values; nullopt:
// send all. Looks at a few rows first, so that values without zeros cost no pass over them.
std::optional<std::vector<std::uint32_t>> rows_worth_sending(std::span<const float> values, std::size_t width);

// The changes that a worker keeps back of one table.
class KeptBack {
 public:
  using Keys = std::span<const std::uint64_t>;

  // Adds the changes to what is kept; returns what to send: rows that have become significant, and zeros for others.
  std::vector<float> sift(const TableSpec& spec, RowRange rows, std::span<const float> changes, float threshold);
  std::vector<float> sift(const TableSpec& spec, Keys keys, std::span<const float> changes, float threshold);
  // So that a read contains what is kept.
  void add_to(RowRange rows, std::size_t width, std::span<float> values) const;
  void add_to(Keys keys, std::size_t width, std::span<float> values) const;

  struct All {
    std::vector<std::uint64_t> keys;  // of a sparse table, ascending
    std::vector<float> values;        // of these; of a dense table, all of it
  };
  // Nothing is kept any more; nullopt if nothing was.
  std::optional<All> take();
  std::uint64_t rows() const { return rows_; }

 private:
  bool sift_row(std::span<float> kept, std::span<const float> change, float threshold, std::span<float> out);

  std::vector<float> dense_;
  std::unordered_map<std::uint64_t, std::vector<float>> sparse_;
  std::uint64_t rows_ = 0;  // kept back in all, one as often as it was
  bool any_ = false;
};

}  // namespace paceline
