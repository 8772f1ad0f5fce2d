// Pulling a list of pixel positions back through one transform: from positions in its output to positions in
// its input.
//
// Each function rewrites `list` in place and leaves fill entries (negative) alone. Pure otherwise, any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/transform_spec.h"

namespace millrace::transforms {

using IndexList = std::vector<int32_t>;

inline void pull_back_flip(IndexList& list, int32_t size) {
  for (int32_t& i : list)
    if (i >= 0) i = size - 1 - i;
}

// A crop that begins at `offset`, which may reach outside of [0, size): there `mode` says what is seen
// (`fill` if constant).
void pull_back_crop(IndexList& list, int32_t offset, int32_t size, PaddingMode mode, int32_t fill);

// Pillow's nearest-neighbour resize.
void pull_back_nearest(IndexList& list, int32_t in_size, int32_t out_size, int32_t fill);

// Pillow's nearest-neighbour lookup along one axis: output i shows the input at `first` + i * `step`, or
// `fill` outside of it.
void pull_back_scale(IndexList& list, double first, double step, int32_t in_size, int32_t fill);

}  // namespace millrace::transforms
