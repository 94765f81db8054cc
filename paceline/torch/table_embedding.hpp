// TableEmbedding: an embedding whose rows live in a sparse table of the servers (where=server:N), by any 64-bit key. A
// worker holds the rows of the batch it works on and of the next one, however large the table is.
//
//   paceline::DataParallel parallel(job, *net, sgd, "when=ssp:3 where=server:2");
//   paceline::TableEmbedding items(parallel.session(), {.name = "items", .width = 16, .rule = "adagrad:0.05",
//                                                       .init = "normal:0.01"});
//   for (…) {
//     torch::Tensor loss = …net->forward(items.forward(keys))…;   // keys: int64, of any shape; a row for each
//     items.prefetch(next_keys);                                  // optional: they travel while this batch computes
//     sgd.zero_grad();
//     loss.backward();                                            // sends the rows' gradients to the servers
//     parallel.step();                                            // ends the step for the table too
//   }
//
// Each different key of a batch is read once, and its gradients are summed before they are sent. The table's rule
// applies them on the server, with its own rate. A key that nobody has trained reads as its first value, which follows
// from the spec's init and seed and is the same on every worker. A row is there from its first gradient on; a table
// with a budget refuses those that do not fit, with an Error from one of the next calls, and keeps the others.
//
// Reads contain what the plan's `when` promises, prefetched or not. Note [How much a worker's update counts] in
// exchange/server_mixer.hpp holds for rows as for parameters: with bsp and softsync servers average, with ssp and essp
// a worker's gradient counts by its share of the workers, with async in full. A step may have several backward passes,
// each of which sends; bsp makes one update of them. no_sync() does not hold rows back.
//
// One thread owns it, the one that calls backward() and owns the Session. The Session outlives it, and it outlives
// every graph that one of its outputs is part of. All workers make it alike. Not for second derivatives.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "paceline/core/clock.hpp"
#include "paceline/server/session.hpp"
#include "paceline/server/table.hpp"

namespace paceline {

class TableEmbedding {
 public:
  // Throws Error{invalid} unless the table is sparse and its rule takes gradients.
  TableEmbedding(Session& session, const TableSpec& spec);
  ~TableEmbedding();
  TableEmbedding(const TableEmbedding&) = delete;
  TableEmbedding& operator=(const TableEmbedding&) = delete;

  // The rows of the keys: their shape, and `width` more.
  torch::Tensor forward(const torch::Tensor& keys);
  // Begins to read the rows of the next step, for the forward() of that step that asks for just these keys; those of an
  // earlier prefetch that nobody has asked for are dropped. Between forward() and backward() is a good moment.
  void prefetch(const torch::Tensor& keys);
  // Returns when servers have taken all gradients: before reading what others have sent, at the end of training.
  void flush();

  const TableSpec& spec() const { return table_.spec(); }
  // For its snapshots and restores: after flush(), and before the next forward().
  const Table& table() const { return table_; }
  struct Counters {
    std::uint64_t rows_read = 0;
    std::uint64_t rows_prefetched = 0;  // of those: asked for before their step
    std::uint64_t rows_read_again = 0;  // since this worker has changed them meanwhile
    Duration waited{};                  // for rows
  };
  const Counters& counters() const { return counters_; }

 private:
  // The different keys of a batch, in ascending order.
  struct BatchKeys {
    torch::Tensor given;
    std::vector<std::uint64_t> unique;
    torch::Tensor positions;  // of each given key in `unique`
  };
  struct RowsRead {
    std::vector<std::uint64_t> keys;
    std::vector<float> rows;
    TablePending pull;
  };
  // Rows on their way, or there.
  struct Lookup {
    std::shared_ptr<const BatchKeys> keys;  // shared with the graph that will send their gradients
    torch::Tensor rows;
    std::int64_t clock = 0;     // of the step that reads them
    std::int64_t required = 0;  // what they contain: the updates of all steps before
    TablePending pull;
    std::deque<RowsRead> again;  // own changes since
  };
  struct Push {
    std::shared_ptr<const BatchKeys> keys;
    torch::Tensor gradients;
    TablePending pending;
  };

  std::shared_ptr<const BatchKeys> unique_keys(const torch::Tensor& keys) const;
  Lookup begin(std::shared_ptr<const BatchKeys> keys, std::int64_t clock);
  bool prefetched(const torch::Tensor& keys) const;
  torch::Tensor finish(Lookup lookup);
  void push(const std::shared_ptr<const BatchKeys>& keys, const torch::Tensor& gradients);
  void read_own_changes(const BatchKeys& pushed);
  void give_up_prefetch();
  std::span<float> floats(const torch::Tensor& rows) const;

  // Constant after construction.
  Session& session_;
  Table table_;
  const double share_;  // of a worker's gradient

  std::unique_ptr<Lookup> next_;
  std::deque<Lookup> given_up_;  // until they are here: answers that nobody takes would stay in the Endpoint
  std::deque<Push> pushes_;      // that servers may not have taken yet
  Counters counters_;
};

}  // namespace paceline
