// What several tests of transforms use: a normalisation, the key of a sample, and this machine's instruction
// sets.
#pragma once

#include <cstdint>

#include "base/sample_key.h"
#include "../instruction_sets.h"
#include "millrace/transforms.h"

namespace millrace::transforms::test {

inline const Normalize kNormalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

inline base::SampleKey key(int64_t index) { return {.seed = 7, .epoch = 1, .index = index, .occurrence = 0}; }

using millrace::test::instruction_sets;
using millrace::test::set_name;

}  // namespace millrace::transforms::test
