// NoiseSpec: which noise a user asks for (--noise). Pure, without torch, so that a wrong word is refused before
// anything is started; CovarianceNoise acts on it.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

struct NoiseSpec {
  enum class Shape {
    diagonal,  // each coordinate with its own variance
    trace,     // all coordinates with the mean variance
  };
  Shape shape = Shape::diagonal;
  std::int64_t batch = 0;  // examples of the batch whose noise is imitated, of all workers together

  std::string text() const;  // what parse_noise takes
};

// fisher-diag:128 or fisher-trace:128. Error{invalid}.
NoiseSpec parse_noise(const std::string& text);

// A step's examples, and the parts in which they go through the models of all workers. Error{invalid} when there is
// nothing to imitate, or only one part to learn the noise from.
void require_noise_fits(const NoiseSpec& spec, std::int64_t examples, std::int64_t parts);

}  // namespace paceline
