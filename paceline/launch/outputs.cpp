#include "paceline/launch/outputs.hpp"

#include <unistd.h>

namespace paceline {

Outputs::Outputs(Form form) : form_(form), output_(STDOUT_FILENO), own_errors_(STDERR_FILENO) {
  const bool one = form == Form::tagged || same_file(STDOUT_FILENO, STDERR_FILENO);
  errors_ = one ? &output_ : &own_errors_;
}

void Outputs::watch(PollSet& set) const {
  for (const Sink* sink : {&output_, &own_errors_}) {
    if (!sink->empty()) set.add(sink->descriptor(), POLLOUT);
  }
}

void Outputs::write(const PollSet& set) {
  for (Sink* sink : {&output_, &own_errors_}) {
    if (set.ready(sink->descriptor())) sink->write_some();
  }
}

void Outputs::give_up() {
  output_.give_up();
  own_errors_.give_up();
}

}  // namespace paceline
