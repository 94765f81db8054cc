#include "paceline/launch/worker.hpp"

namespace paceline {

void Stream::watch(PollSet& set) const {
  if (!sink_->full()) pipe_.watch(set);
}

void Stream::transfer(const PollSet& set) {
  pipe_.transfer(set, [this](std::string_view bytes) { sink_->add(lines_.feed(bytes)); });
}

void Stream::finish() {
  pipe_.finish([this](std::string_view bytes) { sink_->add(lines_.feed(bytes)); });
  sink_->add(lines_.finish());
}

void Worker::watch(PollSet& set) const {
  process_.watch(set);
  output_.watch(set);
  errors_.watch(set);
}

void Worker::transfer(const PollSet& set) {
  output_.transfer(set);
  errors_.transfer(set);
}

std::optional<Ending> Worker::reap() {
  const auto ending = process_.reap();
  if (!ending) return std::nullopt;
  output_.finish();
  errors_.finish();
  return ending;
}

}  // namespace paceline
