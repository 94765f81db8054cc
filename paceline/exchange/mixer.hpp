// Mixer: where the parameters of workers meet that have stepped on their own. The counterpart of Exchange, in which
// gradients meet before anybody steps.
//
//   auto mixer = make_mixer(communicator, plan, {.parameters = {…}});
//   …                                        // a step of this rank's own optimizer changes its parameters
//   mixer->end_update(step);                 // mixes them with others', as the plan says
//   mixer->drain();                          // all ranks have the same: before evaluating, saving, the end
//
// One thread owns a Mixer. The Communicator outlives it. The ranges are memory from Endpoint::allocate, laid out alike
// and with the same numbers in them on all ranks at the start; between calls only this rank's own updates change them.
// Nothing runs behind the caller's back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/core/trace.hpp"
#include "paceline/exchange/mix_choices.hpp"
#include "paceline/exchange/plan.hpp"
#include "paceline/sync/staleness.hpp"

namespace paceline {

class Session;
class Table;
struct Sites;

struct MixerOptions {
  std::vector<TensorView> parameters = {};
  MixChoices choices = {};
  std::function<double()> learning_rate = [] { return 1.0; };  // of the step that ends; for slow momentum
  Trace* trace = nullptr;
  // With where=server: gradients laid out as the parameters, the servers' ranks, and which of their rules does what
  // this rank's optimizer does; empty: none does.
  std::vector<TensorView> gradients = {};
  std::vector<Rank> servers = {};
  std::string rule = {};
};

// What a worker has seen of servers, so far.
struct ServerStatistics {
  Staleness reads;      // of this worker, in clocks
  Staleness updates;    // of all workers' gradients, in updates that they had missed; on rank 0 only
  std::string applied;  // "by servers: sgd:0.1", or "by workers"
};

class Mixer {
 public:
  virtual ~Mixer() = default;

  // Whether this rank trains in `step`, or keeps still until the next round.
  virtual bool takes_part(std::int64_t step);
  // This rank has made its step, from 0, or has kept still in it.
  virtual void end_update(std::int64_t step) = 0;
  // During a computation: lets messages move. Leaves the parameters alone.
  virtual void progress() {}
  // A collective: all ranks get the same parameters. Costs nothing right after they have met.
  void drain();
  // A rank calls it when it has no batches left, and takes part in the others' meetings until none has any: all end
  // with the same parameters. Throws Error{invalid} where others cannot go on without it.
  void join();
  // Calls `broadcast` so that what it broadcasts from rank 0 of the Communicator it is given goes from rank 0 of all to
  // all ranks.
  virtual void spread(const std::function<void(Communicator&)>& broadcast) { broadcast(communicator_); }

  // Gradients are applied elsewhere: this rank's optimizer must not run.
  virtual bool takes_gradients() const { return false; }
  virtual std::optional<ServerStatistics> statistics() { return std::nullopt; }
  // Of the step that ends next; for plans that choose by it.
  virtual void note_loss(double) {}
  // What this rank has changed of the plan since the last call, and why: sentences for a person.
  virtual std::vector<std::string> take_remarks() { return {}; }
  // The door to the servers, where there are some: for further tables, whose clock is that of the parameters.
  virtual Session* session() { return nullptr; }
  // Those tables of the parameters whose rule remembers something, such as momentum: for checkpoints.
  virtual std::vector<Table> tables();

  // All ranks have the same parameters, since the last meeting of all.
  bool agreed() const { return agreed_; }
  // All ranks had batches left then: nobody was in join().
  bool complete() const { return complete_; }
  // In all: moving and mixing; and waiting for other ranks, beside what Communicator::waited tells.
  Duration communicated() const { return communicated_; }
  Duration waited() const { return waited_; }

 protected:
  enum class Batches { left, none };  // of this rank

  Mixer(Communicator& communicator, MixerOptions options);
  // All ranks meet, have the same parameters then, and agree(). Returns how many of them have batches left.
  virtual int meet(Batches batches) = 0;
  // Of all ranges, over all ranks.
  void average_over_all(Algorithm algorithm);
  // Runs `work` and counts its time as communication, less what it waited.
  void timed(std::int64_t step, const std::function<void()>& work);
  TimePoint now() const { return communicator_.endpoint().clock().now(); }
  std::size_t bytes() const;  // of all ranges

  Communicator& communicator_;
  const MixerOptions options_;
  // After a meeting in which so many ranks had batches left.
  void agree(int left);

  bool agreed_ = true;
  std::int64_t last_step_ = 0;
  Duration waited_{};

 private:
  bool complete_ = true;
  Duration communicated_{};
};

// A collective call. Throws Error{invalid} for a plan that these ranks cannot follow. For `waited` to tell, the
// Communicator must have been made with time_waits.
std::unique_ptr<Mixer> make_mixer(Communicator& communicator, const Plan& plan, MixerOptions options);
// The same for a plan between sites: SiteMixer.
std::unique_ptr<Mixer> make_mixer(Communicator& communicator, const Sites& sites, const Plan& between,
                                  MixerOptions options);

}  // namespace paceline
