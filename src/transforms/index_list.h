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

// Positions of a padding: no input.
inline bool is_fill(int32_t index) { return index < 0; }
bool has_fill(const IndexList& list);

struct Window {
  int32_t begin, size;
};
// Returns the positions that `list` reads; one pixel if all is padding, so that no input is ever empty.
Window window_of(const IndexList& list);

// Subtracts `by` from all positions that are not padding.
void shift(IndexList& list, int32_t by);

// How a list runs through its window: +1 all of it forwards, -1 all of it backwards, 0 any other way.
int direction_of(const IndexList& list);

inline void pull_back_flip(IndexList& list, int32_t size) {
  for (int32_t& i : list)
    if (i >= 0) i = size - 1 - i;
}

// A crop that begins at `offset` and may reach outside of [0, size). The padding `mode` gives the pixels
// there (`fill` if constant).
void pull_back_crop(IndexList& list, int32_t offset, int32_t size, PaddingMode mode, int32_t fill);

// Pillow's nearest-neighbour resize.
void pull_back_nearest(IndexList& list, int32_t in_size, int32_t out_size, int32_t fill);

// Pillow's nearest-neighbour lookup along one axis: output i shows the input at `first` + i * `step`, or
// `fill` outside of it.
void pull_back_scale(IndexList& list, double first, double step, int32_t in_size, int32_t fill);

}  // namespace millrace::transforms
