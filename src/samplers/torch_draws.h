// What torch's functions draw from a generator for the CPU: torch.randint() and torch.multinomial(), number
// for number, and with as many words.
//
// Found by comparing with torch 2.11 to 2.13; tests/parity/test_cpp_draws.py compares thousands of cases with
// the torch that is installed. One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "samplers/torch_generator.h"

namespace millrace::samplers {

// torch.randint(n, (count,)): a word for each, or two from 2^28 on, and what they leave when n divides them.
// n >= 1.
std::vector<int64_t> randint(int64_t n, int64_t count, TorchGenerator& generator);

// torch.multinomial(weights, count, replacement) of weights of type double that are finite, 0 or more, and
// not all 0; without replacement count <= weights.size().
//
// With replacement two words for each draw, which is looked up in the sums of the weights. Without it, and
// for a single draw, two words for each weight: the `count` largest of weight / exponential number come, in
// falling order. Weights of 0 come last then, where nothing else is left, in the order in which the standard
// library's partial sorts leave equal numbers: that of libstdc++, as torch has it.
// Memory: 16 bytes for each weight.
std::vector<int64_t> multinomial(std::span<const double> weights, int64_t count, bool replacement,
                                 TorchGenerator& generator);

}  // namespace millrace::samplers
