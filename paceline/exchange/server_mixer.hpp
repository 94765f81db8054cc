// ServerMixer: parameters live in dense tables on servers (where=server:N). After each step a worker sends its
// gradient, to which a server applies its optimizer, or what its own optimizer has changed; then it ends its clock and
// reads the parameters again, as fresh as the policy demands (when=bsp, ssp:S, essp:S, async, softsync:K; of auto, S is
// this worker's and changes).
//
// Note [How much a worker's update counts]. With bsp, ssp and essp all workers' updates of one clock together count as
// one step: gradients are averaged (bsp), changes divided by the number of workers. With async every update counts in
// full, as in Downpour SGD (Dean et al. 2012): there are as many steps as updates. With softsync:K it is K that make
// one.
//
// S bytes to and S bytes from the servers per step and worker (or per `push_every` and `fetch_every` of them). On the
// servers' own host these are read and written in place.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "paceline/exchange/mixer.hpp"
#include "paceline/server/session.hpp"
#include "paceline/server/table.hpp"
#include "paceline/sync/adaptive_bound.hpp"

namespace paceline {

class ServerMixer final : public Mixer {
 public:
  // A collective call: rank 0's parameters become the tables' contents. Throws Error{invalid} where the plan's choices
  // cannot be.
  ServerMixer(Communicator& communicator, const Plan& plan, MixerOptions options);
  ~ServerMixer() override;

  void end_update(std::int64_t step) override;
  bool takes_gradients() const override { return on_servers_; }
  std::optional<ServerStatistics> statistics() override;
  void note_loss(double loss) override { loss_ = loss; }
  std::vector<std::string> take_remarks() override { return std::exchange(remarks_, {}); }
  Session* session() override { return &session_; }
  std::vector<Table> tables() override;

 private:
  struct Range {
    Table table;
    std::span<float> parameters;
    std::span<float> gradients;  // where servers apply them
    std::span<float> outgoing;   // what is sent: gradients of several steps, or changes
    std::span<float> before;     // the parameters as they were read, where the worker applies
  };

  int meet(Batches batches) override;
  void open_tables();
  TableSpec spec_of(std::size_t index, std::size_t floats) const;
  void gather(Range& range);
  void push();
  void fetch();
  double share() const;
  void adapt(Duration waited);

  // Constant after construction.
  const Policy policy_;
  const bool on_servers_;
  Session session_;
  std::vector<Range> ranges_;
  Arena memory_;  // of outgoing and before

  std::int64_t gathered_ = 0;  // steps since the last push
  // Of when=auto.
  std::optional<AdaptiveBound> adaptive_;
  TimePoint last_end_{};
  double loss_ = AdaptiveBound::kUnknown;
  std::vector<std::string> remarks_;
};

}  // namespace paceline
