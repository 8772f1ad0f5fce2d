// erase(): overwrites rectangles of a finished tensor row with values or with noise.
//
// The noise is a function of (noise key, element), so it is the same whatever computes it: element e of the
// rectangle, counted channel by channel and row by row, is normal number e of the key (noise.h). No state,
// any thread. About 15 ns a number.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "transforms/placed_steps.h"

namespace millrace::transforms {

// `out`: three dense planes of `size`, of a float type, at any address.
void erase(std::span<const Erasure> erasures, PictureSize size, base::DType type, void* out);

}  // namespace millrace::transforms
