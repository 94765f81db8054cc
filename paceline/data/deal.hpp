// How the examples of a set are dealt out to the workers for good, in place of a new order of all in every epoch: for
// training on data that differ from worker to worker. Pure functions of the labels and a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paceline/data/dataset.hpp"

namespace paceline {

struct Deal {
  enum class Kind {
    iid,        // every epoch's order is drawn for all workers together
    by_label,   // sorted by class, then cut: most workers see one or two classes (McMahan et al. 2017)
    dirichlet,  // each worker draws its own mixture of the classes (Hsu, Qi & Brown 2019)
  };
  Kind kind = Kind::iid;
  double alpha = 1;  // of dirichlet: small ones give workers of one class, large ones workers that are alike
};

// iid, by-label, dirichlet:0.5; Error{invalid}
Deal parse_deal(const std::string& text);
// Error{invalid} if this set has no classes to deal by.
void require_fit(const Deal& deal, const Form& form);

// All examples, worker by worker; each worker has its share_of them. Empty for iid.
std::vector<std::uint32_t> deal_out(const Deal& deal, std::span<const std::uint8_t> labels, int workers,
                                    std::uint64_t seed);

}  // namespace paceline
