// SampleKey: what every random decision about a sample is a function of.
//
// A native stage never keeps a generator: it asks Philox (philox.h) for the numbers of (key, op). So the same
// sample looks the same in every mode, on any thread, and after a resume.
#pragma once

#include <cstdint>

namespace millrace::base {

struct SampleKey {
  uint64_t seed = 0;        // the base seed that this iterator drew
  uint64_t epoch = 0;       // resets of a persistent iterator so far
  int64_t index = 0;        // index in the root dataset (below any Subset)
  uint32_t occurrence = 0;  // how often the index came before in this epoch (samplers with replacement)
  bool operator==(const SampleKey&) const = default;
};

}  // namespace millrace::base
