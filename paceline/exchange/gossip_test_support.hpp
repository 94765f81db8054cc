// The mixing matrices of gossip graphs, and how quickly they bring ranks together: what mixers are compared with.
#pragma once

#include <cmath>
#include <vector>

#include "paceline/exchange/gossip_graph.hpp"

namespace paceline {

using Matrix = std::vector<std::vector<double>>;

inline Matrix mixing_matrix(const GossipStep& step) {
  const auto n = static_cast<std::size_t>(step.ranks);
  Matrix matrix(n, std::vector<double>(n));
  for (std::size_t r = 0; r < n; ++r) {
    const std::vector<int> neighbours = gossip_neighbours(step, static_cast<int>(r));
    const double weight = 1.0 / static_cast<double>(neighbours.size() + 1);
    matrix[r][r] = weight;
    for (const int other : neighbours) matrix[r][static_cast<std::size_t>(other)] += weight;
  }
  return matrix;
}

inline std::vector<double> product(const Matrix& matrix, const std::vector<double>& x) {
  std::vector<double> result(x.size());
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c) result[r] += matrix[r][c] * x[c];
  }
  return result;
}

// The largest factor by which these steps, one after the other, can leave the distance from the mean: the second
// singular value of their product, by power iteration on what has no mean. Matrices are symmetric.
inline double contraction(const std::vector<Matrix>& steps) {
  const std::size_t n = steps[0].size();
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = std::sin(1.0 + static_cast<double>(i * i));
  const auto normalise = [&] {
    double mean = 0, square = 0;
    for (const double v : x) mean += v / static_cast<double>(n);
    for (double& v : x) {
      v -= mean;
      square += v * v;
    }
    for (double& v : x) v /= std::sqrt(square);
    return std::sqrt(square);
  };
  normalise();
  double last = 0;
  for (int i = 0; i < 200; ++i) {
    for (const Matrix& step : steps) x = product(step, x);
    for (std::size_t s = steps.size(); s > 0; --s) x = product(steps[s - 1], x);
    last = normalise();
  }
  return std::sqrt(last);
}

}  // namespace paceline
