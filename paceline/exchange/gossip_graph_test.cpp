#include "paceline/exchange/gossip_graph.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "paceline/exchange/gossip_test_support.hpp"

namespace paceline {
namespace {

constexpr int kMostRanks = 17;
constexpr int kSteps = 40;

TEST(GossipGraph, EveryMixingMatrixIsSymmetricAndDoublyStochastic) {
  for (const GossipGraph graph : kAllGossipGraphs) {
    for (int n = 1; n <= kMostRanks; ++n) {
      for (int step = 0; step < kSteps; ++step) {
        const Matrix matrix = mixing_matrix({.graph = graph, .ranks = n, .step = step, .seed = 3});
        for (int r = 0; r < n; ++r) {
          double row = 0;
          for (int c = 0; c < n; ++c) {
            row += matrix[r][c];
            ASSERT_EQ(matrix[r][c], matrix[c][r]) << name(graph) << n << " step " << step;
            ASSERT_GE(matrix[r][c], 0);
          }
          ASSERT_NEAR(row, 1, 1e-12) << name(graph) << n << " step " << step;
        }
      }
    }
  }
}

// What rank 0 knows reaches everybody.
TEST(GossipGraph, TheStepsTogetherConnectAllRanks) {
  for (const GossipGraph graph : kAllGossipGraphs) {
    for (int n = 2; n <= kMostRanks; ++n) {
      std::vector<double> knows(static_cast<std::size_t>(n));
      knows[0] = 1;
      for (int step = 0; step < kSteps; ++step)
        knows = product(mixing_matrix({.graph = graph, .ranks = n, .step = step, .seed = 3}), knows);
      for (const double share : knows) EXPECT_GT(share, 0) << name(graph) << n;
    }
  }
}

TEST(GossipGraph, APeriodOfTheExponentialOneContractsMoreThanAsManyStepsOfARing) {
  for (const int n : {8, 12, 16, 17}) {
    std::vector<Matrix> ring, exponential;
    for (int step = 0; step < 12; ++step) {
      ring.push_back(mixing_matrix({.graph = GossipGraph::ring, .ranks = n, .step = step}));
      exponential.push_back(mixing_matrix({.graph = GossipGraph::exponential, .ranks = n, .step = step}));
    }
    EXPECT_LT(contraction(exponential), 0.5 * contraction(ring)) << n;
  }
}

// E[W] = I/2 + (J - I)/2(n-1) for even n, and W is a projection: the squared error shrinks by (n-2)/2(n-1) on average.
TEST(GossipGraph, RandomPartnersContractAsTheoryExpects) {
  constexpr int kRanks = 8;
  constexpr int kDraws = 4000;
  std::vector<double> start(kRanks);
  for (int r = 0; r < kRanks; ++r) start[r] = r - 3.5;
  double sum = 0;
  for (int step = 0; step < kDraws; ++step) {
    const auto mixed = product(mixing_matrix({.graph = GossipGraph::random, .ranks = kRanks, .step = step}), start);
    sum += std::inner_product(mixed.begin(), mixed.end(), mixed.begin(), 0.0);
  }
  const double before = std::inner_product(start.begin(), start.end(), start.begin(), 0.0);
  EXPECT_NEAR(sum / kDraws / before, 6.0 / 14.0, 0.01);
}

TEST(GossipGraph, APartnerIsAnyNeighbourAndNeverOneself) {
  for (const GossipGraph graph : kAllGossipGraphs) {
    for (int n = 2; n <= kMostRanks; ++n) {
      for (int rank = 0; rank < n; ++rank) {
        std::set<int> allowed, drawn;
        for (int step = 0; step < 400; ++step) {
          for (const int other : gossip_neighbours({.graph = graph, .ranks = n, .step = step}, rank))
            allowed.insert(other);
          drawn.insert(gossip_partner(graph, n, rank, static_cast<std::uint64_t>(step)));
        }
        EXPECT_EQ(drawn, allowed) << name(graph) << " rank " << rank << " of " << n;
        EXPECT_FALSE(drawn.contains(rank));
      }
    }
  }
  EXPECT_EQ(gossip_partner(GossipGraph::random, 1, 0, 5), -1);
}

}  // namespace
}  // namespace paceline
