#include "paceline/exchange/async_gossip_mixer.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include "paceline/exchange/float_ranges.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kContextOfGossip = 0x676f73736970ULL;  // apart from the Communicator's own messages
constexpr std::uint64_t kQuestion = 0;
constexpr std::uint64_t kAnswer = 1;
// What has failed elsewhere is not always a message to this rank; it is looked for this often.
constexpr Duration kLongestSleep = std::chrono::milliseconds(20);

}  // namespace

AsyncGossipMixer::AsyncGossipMixer(Communicator& communicator, Algorithm algorithm, GossipGraph graph,
                                   MixerOptions options)
    : Mixer(communicator, std::move(options)),
      algorithm_(algorithm),
      graph_(graph),
      context_(mix(communicator.group().context(), kContextOfGossip)),
      random_(mix(options_.choices.seed, kContextOfGossip), static_cast<std::uint64_t>(communicator.rank())) {
  require_floats(options_.parameters, "where=gossip when=async");
  for (auto* buffer : {&question_, &answer_, &asked_, &answered_}) buffer->resize(bytes());
  if (communicator_.size() > 1) listen();
}

AsyncGossipMixer::~AsyncGossipMixer() {
  for (Pending* operation : {&sending_question_, &receiving_answer_, &receiving_question_, &sending_answer_})
    *operation = Pending();  // cancels
  communicator_.endpoint().retire(context_);
}

void AsyncGossipMixer::listen() {
  receiving_question_ = communicator_.endpoint().receive(kAnyRank, {context_, kQuestion}, asked_);
}

void AsyncGossipMixer::end_update(std::int64_t step) {
  agreed_ = false;
  last_step_ = step;
  if (communicator_.size() == 1) return;
  timed(step, [&] {
    while (serve()) {
    }
    if (!asking_) ask();
  });
}

void AsyncGossipMixer::progress() { communicator_.endpoint().progress(); }

void AsyncGossipMixer::ask() {
  const int partner = gossip_partner(graph_, communicator_.size(), communicator_.rank(), random_());
  const Rank rank = communicator_.group().at(partner);
  std::size_t at = 0;
  for (const TensorView& range : options_.parameters) {
    std::memcpy(question_.data() + at, range.data, range.bytes());
    at += range.bytes();
  }
  Endpoint& endpoint = communicator_.endpoint();
  receiving_answer_ = endpoint.receive(rank, {context_, kAnswer}, answer_, {.exact = true});
  sending_question_ = endpoint.send(rank, {context_, kQuestion}, question_);
  asking_ = true;
}

bool AsyncGossipMixer::serve() {
  communicator_.endpoint().progress();
  const bool had_answer = take_answer();
  return answer_one() || had_answer;
}

bool AsyncGossipMixer::take_answer() {
  if (!asking_ || !receiving_answer_.done()) return false;
  receiving_answer_.wait();  // throws if it failed
  sending_question_.wait();
  asking_ = false;
  each_range(options_.parameters, [&]<class T>(std::span<T> parameters, std::size_t at) {
    const T* const half = reinterpret_cast<const T*>(answer_.data() + at);
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= half[i];
  });
  return true;
}

bool AsyncGossipMixer::answer_one() {
  if (!receiving_question_.done() || !sending_answer_.done()) return false;
  receiving_question_.wait();
  sending_answer_.wait();
  if (receiving_question_.bytes() != asked_.size())
    throw Error(Code::mismatch, receiving_question_.source(),
                communicator_.endpoint().describe(receiving_question_.source()) + " mixes parameters of another size");
  each_range(options_.parameters, [&]<class T>(std::span<T> parameters, std::size_t at) {
    const T* const theirs = reinterpret_cast<const T*>(asked_.data() + at);
    T* const half = reinterpret_cast<T*>(answered_.data() + at);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      half[i] = (theirs[i] - parameters[i]) / 2;
      parameters[i] += half[i];
    }
  });
  sending_answer_ = communicator_.endpoint().send(receiving_question_.source(), {context_, kAnswer}, answered_);
  listen();
  return true;
}

void AsyncGossipMixer::serve_or_sleep() {
  if (serve()) return;
  const TimePoint start = now();
  communicator_.endpoint().idle(start + kLongestSleep);
  waited_ += now() - start;
}

// Nobody comes to the census with an open question: when all have come, all questions have been answered.
int AsyncGossipMixer::meet(Batches batches) {
  std::vector<std::int64_t> left = {batches == Batches::left ? 1 : 0};
  timed(last_step_, [&] {
    while (asking_) serve_or_sleep();
    Handle census = communicator_.start_allreduce(view(left), ReduceOp::sum, {.name = "nobody asks any more"});
    while (!census.test()) serve_or_sleep();
    census.wait();
    sending_answer_.wait();
    average_over_all(algorithm_);
  });
  agree(static_cast<int>(left[0]));
  return static_cast<int>(left[0]);
}

}  // namespace paceline
