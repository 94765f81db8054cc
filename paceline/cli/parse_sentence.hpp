// What is wrong with a command line, for a person.
#pragma once

#include <string>

namespace CLI {
class ParseError;
}

namespace paceline {

// "--epochs is given 2 times; once is enough", where CLI11 says "--epochs: At Most 1 required but received 2"; its own
// words otherwise.
std::string parse_sentence(const CLI::ParseError& error);

}  // namespace paceline
