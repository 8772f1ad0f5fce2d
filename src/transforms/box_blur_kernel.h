// blur_columns(): one box blur down the columns of a picture, for box_blur.cpp.
//
// Vectorised by Highway; whole numbers only, so all instruction sets give the same bits, and `scalar` is the
// plain version. No state, any thread.
#pragma once

#include <cstdint>

#include "base/geometry.h"
#include "base/host_device.h"

namespace millrace::transforms {

// A box of 2 * reach + 1 pixels and a part of the next one on each side, in 24-bit fixed point.
struct Box {
  int32_t reach = 0;
  uint32_t inner = 0, outer = 0;  // weights of the whole pixels, and of the two parts
};
inline constexpr int kBoxFractionBits = 24;

// Returns one blurred byte. `sum`: of the 2 * reach + 1 pixels; `far`: of the two pixels beside them.
MILLRACE_BOTH inline uint32_t box_level(uint32_t sum, uint32_t far, const Box& box) {
  return (sum * box.inner + far * box.outer + (1u << (kBoxFractionBits - 1))) >> kBoxFractionBits;
}

// `in` and `out` are different pictures of the same size, with kRowSlack bytes past the end of each row
// (pixel_buffer.h).
void blur_columns(base::ImageView in, const Box& box, base::ImageView out);

namespace scalar {
void blur_columns(base::ImageView in, const Box& box, base::ImageView out);
}  // namespace scalar

}  // namespace millrace::transforms
