// SampleKey: what every random decision about a sample is a function of, and the random bits that go with it.
//
// No stage keeps a generator: it asks for the bits of (key, stream). So a sample is the same on any thread,
// in any order, and after a resume.
#pragma once

#include <array>
#include <cstdint>

#include "millrace/export.h"

namespace millrace {

struct SampleKey {
  uint64_t seed = 0;        // the base seed of the loader's epoch
  uint64_t epoch = 0;       // resets of a persistent iterator in Python so far; 0 in C++
  int64_t index = 0;        // of the dataset
  uint32_t occurrence = 0;  // how often the index came before in this epoch (samplers with replacement)
  bool operator==(const SampleKey&) const = default;
};

// 128 random bits of (key, stream, number), the same everywhere: Philox4x32-10 (Salmon and others, "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011). `stream`: one for each kind of decision, below 2^30;
// `number`: of the block.
MILLRACE_API std::array<uint32_t, 4> random_bits(const SampleKey& key, uint32_t stream, uint32_t number = 0);

}  // namespace millrace
