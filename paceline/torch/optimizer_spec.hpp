// OptimizerSpec: which optimizer a user asks for, and how it is set. Pure, without torch, so that a wrong word is
// refused before anything is started; make_optimizer (optimizers.hpp) makes it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct OptimizerSpec {
  std::string name = "momentum";
  double lr = 0;  // 0: the default_rate of this name
  double weight_decay = 0;
  std::map<std::string, double, std::less<>> settings = {};  // those that are not as usual

  double rate() const;
  double setting(std::string_view key) const;  // CHECKs that this optimizer has it
  std::string text() const;                    // what parse_optimizer takes
};

// "adam", or with settings "rmsprop:momentum=0.9,centered=1". Throws Error{invalid} that lists what there is.
OptimizerSpec parse_optimizer(const std::string& text);

// Error{invalid} unless the name is known, rate and decay are at least 0 and every setting is one of this optimizer's,
// in its range.
void check_optimizer(const OptimizerSpec& spec);

// A rate to begin with, for a batch of kReferenceBatch (rate_spec.hpp). Those of lars and lamb come from a coarse
// sweep on fashion with mlp and lenet, one seed.
double default_rate(const std::string& name);

std::vector<std::string> known_optimizers();
// One line: each with its settings and their usual values.
std::string optimizer_help();

}  // namespace paceline
