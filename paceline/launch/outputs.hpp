// Outputs: the two sinks that everything a job says goes to. A launcher writes lines as they are to its standard output
// and error; a host agent writes both to its standard output, each line behind a letter that says which it is.
#pragma once

#include <string>

#include "paceline/launch/poll_set.hpp"
#include "paceline/launch/sink.hpp"

namespace paceline {

class Outputs {
 public:
  enum class Form { plain, tagged };
  static constexpr char kOutputTag = 'o';
  static constexpr char kErrorTag = 'e';

  explicit Outputs(Form form);
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  Sink& output() { return output_; }
  Sink& errors() { return *errors_; }
  // What a line for each of them begins with.
  std::string output_tag() const { return tag(kOutputTag); }
  std::string error_tag() const { return tag(kErrorTag); }
  // A sentence of paceline's own, for the errors.
  void say(const std::string& sentence) { errors_->add(error_tag() + "paceline: " + sentence + "\n"); }

  void watch(PollSet& set) const;
  void write(const PollSet& set);
  bool empty() const { return output_.empty() && own_errors_.empty(); }
  void give_up();

 private:
  std::string tag(char letter) const { return form_ == Form::tagged ? std::string(1, letter) : std::string(); }

  const Form form_;
  Sink output_;
  Sink own_errors_;
  Sink* errors_;
};

}  // namespace paceline
