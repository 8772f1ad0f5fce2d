// Draws in f32, where torchvision draws from torch.rand().
#pragma once

#include "base/philox.h"
#include "millrace/transform_spec.h"

namespace millrace::transforms {

// torch.rand(1).
inline float unit_float(base::Philox& random) {
  return static_cast<float>(random.next_u32() >> 8) * 0x1p-24f;
}

inline float float_between(const Range& range, base::Philox& random) {
  return static_cast<float>(range.min) + unit_float(random) * static_cast<float>(range.max - range.min);
}

}  // namespace millrace::transforms
