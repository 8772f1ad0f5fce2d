// PixelAmount, and the form of an operation that computes each pixel from that pixel alone.
//
// An operation is a struct of static members, in a file of its own:
//   kind                         its name in policies, steps and kernels
//   amount(value)                a step's value as pixel() takes it; once for each picture, on the CPU
//   pixel(p, amount)             the new pixel, on CPU and GPU; made from byte(v, amount) by EachByte, if
//                                each channel changes alone
//   row(in, width, amount, out)  optional: the same bits for a row of RGBX, if the CPU has a faster way
// and a line in pixel_ops.h. Pillow's arithmetic, bit for bit.
#pragma once

#include <cstdint>

#include "millrace/augment_policy.h"
#include "transforms/byte_pixels.h"

namespace millrace::transforms {

struct PixelAmount {
  float factor = 0;
  int32_t level = 0;
};

template <class Op>
struct EachByte {
  MILLRACE_BOTH static Rgb8 pixel(Rgb8 p, PixelAmount amount) {
    return {Op::byte(p.r, amount), Op::byte(p.g, amount), Op::byte(p.b, amount)};
  }
};

}  // namespace millrace::transforms
