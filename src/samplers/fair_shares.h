// fair_shares(): whole numbers in the proportions of weights, as FairSchedule takes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::samplers {

// In exactly the same proportions where all weights are decimal or simple fractions, with a denominator of at
// most 10^6 each, and the numbers' sum is below 2^50; else to 2^-50 of the largest. Weights are finite, 0 or
// more, and not all 0. The same numbers as millrace.samplers.mixture.shares() in Python.
std::vector<uint64_t> fair_shares(std::span<const double> weights);

}  // namespace millrace::samplers
