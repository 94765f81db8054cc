// DataParallel: trains one model on several workers, each with its own part of the data. In place of optimizer.step():
//
//   auto job = paceline::join(argc, argv);
//   Net net;
//   torch::optim::SGD sgd(net->parameters(), 0.1);
//   paceline::DataParallel parallel(job, *net, sgd, "where=allreduce");
//   for (auto& batch : paceline::shard(dataset, job)) {
//     sgd.zero_grad();
//     loss(net, batch).backward();
//     parallel.step();
//   }
//
// At the start all ranks get rank 0's parameters, buffers and optimizer. In every step gradients are averaged over the
// ranks, while backward goes on; a parameter that took no part on any rank is left alone by the optimizer, one that
// took part on some is averaged with zeros from the others. The same seed and number of workers give the same bits,
// whatever the bucket size, with where=shm and where=ordered.
//
// Parameters move into memory that the ranks share (ParameterArena) and back out when the DataParallel ends. Model and
// optimizer outlive it, and the Job all three. One thread owns it, and is the one that calls backward(). Between hosts
// another thread moves gradients while backward runs: code that runs inside it may call Communicators, not the
// Endpoint. With when=delayed it does so all the time, until drain().
//
// Gradients may be applied late, so that they travel while the next steps compute (when=delayed:D):
//
//   paceline::DataParallel parallel(job, *net, sgd, "when=delayed:1");
//   …                                       // the loop as above; its first D steps apply nothing
//   parallel.drain();                       // applies what is still on its way: before evaluating, saving, the end
//
// Workers may also step on their own, each with its own gradient, and let their parameters meet now and then
// (when=local:K, where=gossip, where=hogwild; see Mixer):
//
//   paceline::DataParallel parallel(job, *net, sgd, "when=local:8");
//   …                                       // the loop as above; .grad stays this rank's own
//   parallel.drain();                       // all ranks get the same parameters: before evaluating, saving, the end
//
// Or parameters may live on servers (where=server:N with when=bsp, ssp:S, essp:S, async or softsync:K), which are
// threads of the workers' processes, or processes that the job was started with: workers push gradients, or what their
// optimizers have changed, and read the parameters as fresh as the plan demands; see ServerMixer.
//
// Each rank's optimizer then has its own state, and a parameter is updated where it took part. Parameters with sparse
// gradients are refused.
//
// Where some networks between the ranks are much slower than others, groups of hosts can be sites: gradients then meet
// in every step inside a site, and parameters every K steps between sites (SiteMixer):
//
//   paceline::DataParallel parallel(job, *net, sgd, "when=bsp", {.between_sites = {.plan = "when=local:16"}});
//   …                                       // the loop as above; .grad is the average over the site
//   parallel.drain();                       // all ranks get the same parameters: before evaluating, saving, the end
//
// Workers may have different numbers of batches:
//
//   while (auto batch = next()) {
//     sgd.zero_grad();
//     loss(net, *batch).backward();
//     parallel.step();
//   }
//   parallel.join();                        // returns when no worker has a batch any more
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/collective/communicator.hpp"
#include "paceline/core/trace.hpp"
#include "paceline/exchange/mixer.hpp"
#include "paceline/launch/join.hpp"

namespace paceline {

class ServerSide;
class Session;
class Table;

// What sync_buffers makes of buffers with floating elements (running statistics). Others become rank 0's.
enum class BufferPolicy {
  average,  // over the ranks
  rank0,
};

// Another plan between sites than inside them.
struct BetweenSites {
  std::string plan = {};          // "when=local:16"; empty: there are no sites
  std::vector<int> site_of = {};  // a number for each rank of the group, by its index in it; empty: each host is a site
};

struct DataParallelOptions {
  std::size_t bucket_bytes = 0;  // gradients that travel together; 0: by what they cost
  int check_every = 100;         // steps between two comparisons of the replicas; 0: never
  bool check_finite = true;      // a NaN or Inf in a gradient is an Error that names it
  bool fuse = true;              // one pass over memory for most of torch::optim; see FusedOptimizer
  // On one host, with a fused optimizer, step() has each rank update a part of the parameters and write it to all: less
  // work for each. Then .grad is not the average after a step() without finish() (zero it before the next backward, as
  // usual), and an optimizer with state has only
  // its part of that up to date. Plain SGD, which has none, is always shared; others if this is set, and then
  // sync_optimizer() must come before anything that reads the optimizer's state, torch::save for example. Lars and
  // Lamb, which need norms of whole parameters, never are.
  bool share_update = false;
  BufferPolicy buffers = BufferPolicy::average;
  // While some ranks are in join(), gradients are the average over those that still have batches; otherwise over all,
  // as if the others' were zeros.
  bool divide_by_active = true;
  // With when=local:K: as when=bsp until so many steps have been made, of all runs (post-local SGD, Lin et al. 2020).
  std::int64_t local_after = 0;
  MixChoices mixing = {};  // of plans whose parameters meet
  BetweenSites between_sites = {};
  Trace* trace = nullptr;  // where to record what happens when
  CommunicatorOptions communicator = {};
};

// Where a rank's time went, in all.
struct ParallelTimes {
  Duration communicate{};
  Duration wait{};  // for other ranks
  Duration update{};
};

class DataParallel {
 public:
  // Throws Error{invalid} for a bad plan or a model that cannot be distributed, Error{mismatch} when ranks have
  // different models.
  DataParallel(Job& job, torch::nn::Module& model, torch::optim::Optimizer& optimizer, std::string_view plan = {},
               DataParallelOptions options = {});
  DataParallel(Endpoint& endpoint, const Group& group, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
               std::string_view plan = {}, DataParallelOptions options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Finishes the reduction and updates the parameters.
  void step();
  // For optimizers that evaluate more than once per step (LBFGS). The closure calls zero_grad and backward and returns
  // the loss; the optimizer sees the average over the ranks, which is also what is returned. With when=local it sees
  // this rank's own. Refused where gradients are late or parameters mix in every step.
  torch::Tensor step(const std::function<torch::Tensor()>& closure);
  // Waits until every gradient is the average over the ranks. Only between finish() and step() may gradients be read
  // and changed, alike on all ranks. With when=delayed .grad then is the gradient that step() will apply, zero while
  // there is none. Where parameters meet there is nothing to wait for, and gradients are this rank's own; with sites
  // they are averages over the site.
  void finish();

  // With when=delayed:D, step() applies the gradient of D steps ago (at the learning rate of now), the first D steps
  // none. drain() applies those that are left, in order, and afterwards the next D steps apply none again. So nothing
  // of this has to be saved: a checkpoint after drain() is complete, and all ranks drain at the same steps. `between`
  // is run on each gradient before it is applied: what a program does between backward() and step() to gradients,
  // parallel.drain([&] { parallel.clip_grad_norm(1.0); }). Costs nothing if nothing is on its way, as with when=bsp.
  // Who forgets it loses the last D gradients. Where parameters meet: all ranks' parameters become their average.
  void drain(const std::function<void()>& between = {});
  // The memory of gradients on their way, beside the one gradient that when=bsp has: D of them.
  std::size_t delay_bytes() const;
  // Between hosts, with when=delayed: gradients travel while the caller computes. step() ends with it; who has called
  // a Communicator since then, which takes the Endpoint back, can say it again.
  void lend();

  // A rank calls it when it has no batches left, and takes part in the others' steps with zeros until no rank has any:
  // all ranks end with the same parameters, and the same steps(). Whoever calls step() counts as one that has a batch.
  // Ends with drain(). `between` as in drain(): what this program does on all ranks between backward() and step(), if
  // that is more than nothing (finish() alone: [] {}). A step costs nothing more for it; the end one step of zeros. Not
  // together with layers that need all ranks in forward (SyncBatchNorm). With when=local averages are over those that
  // have made a step since the last one, and so they are between sites; with when=bsp where=gossip it is refused.
  void join(const std::function<void()>& between = {});

  // While it lives, backward only adds to the local gradients: for all but the last part of a step's batch.
  class NoSync {
   public:
    explicit NoSync(DataParallel& parallel);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& parallel_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  // finish(), then scales all gradients so that their joint 2-norm is at most max_norm. Returns what it was. Where
  // parameters meet these are this rank's own, with sites those of the site.
  double clip_grad_norm(double max_norm);
  // Buffers become what `buffers` in the options says. A collective of its own: call it before evaluating or saving.
  void sync_buffers();
  // All of the optimizer's state on all ranks; see share_update. A collective; costs nothing where it is so already.
  // Where parameters meet, each rank, or site, has a state of its own and gets rank 0's.
  void sync_optimizer();
  // Compares the replicas now; see check_every. Where parameters meet they are the same only after a meeting of all,
  // such as drain(); otherwise this is refused, and check_every waits for one.
  void check_replicas();

  // All ranks have the same parameters, as after every step in which gradients have met.
  bool met() const;
  // This rank's next step counts; see MixChoices::participate. Otherwise it needs no backward, only step().
  bool takes_part();

  std::int64_t steps() const;
  void set_steps(std::int64_t steps);  // after loading a checkpoint; on all ranks
  std::size_t buckets() const;
  ParallelTimes times() const;
  // Of plans with where=server: what reads and updates were like. A request to the servers on rank 0.
  std::optional<ServerStatistics> server_statistics();
  // Of the step that ends next, for plans that choose by it (when=auto); and what this rank has chosen since the last
  // call, and why.
  void note_loss(double loss);
  std::vector<std::string> take_remarks();
  // Of plans with where=server: for tables of the program's own, such as a TableEmbedding's. step() ends their clock
  // too. Throws Error{invalid} for other plans.
  Session& session();
  // Of such plans, where servers apply gradients with a memory, such as momentum: the tables that have it, for
  // checkpoints (server/table_snapshot.hpp). Empty elsewhere.
  std::vector<Table> server_tables();
  // For the program's own operations. They keep their own order, apart from the gradients'.
  Communicator& communicator();

 private:
  class State;
  std::unique_ptr<ServerSide> servers_;  // outlives what uses its Endpoint
  std::unique_ptr<State> state_;
};

}  // namespace paceline
