// SampleParams: the random decisions of one sample, drawn once, as plain structs that CPU and CUDA kernels take alike.
#pragma once

#include <cstdint>
#include <vector>

#include "base/geometry.h"

namespace millrace {

// One entry per transform of the chain that decided something, in chain order.
struct OpParams {
  enum class Kind : uint8_t { resized_crop, crop, flip_horizontal, flip_vertical, orientation };
  Kind kind;
  uint32_t op = 0;       // position in the chain
  Rect box;              // resized_crop, crop: in the coordinates of the picture at that point (crop: after padding)
  bool applied = false;  // flips
  int orientation = 1;   // orientation
};

struct SampleParams {
  std::vector<OpParams> ops;
};

}  // namespace millrace
