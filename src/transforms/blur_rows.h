// BlurRows: rows of a Gaussian blur, in f32: first down the columns, then along the row, rounded once at the end.
//
// torchvision sums the same products in another order, so a value that lies at the edge between two levels may be rounded to the
// other one (about one in 10,000). Buffers are reused; one owner, one thread. About 0.3 ns a pixel and tap.
#pragma once

#include <cstdint>
#include <vector>

#include "base/geometry.h"
#include "transforms/sample_plan.h"

namespace millrace {

class BlurRows {
 public:
  // Row `y` of the blurred picture, which is smaller than `in` by the kernels' lengths less one.
  void row(const BlurKernels& kernels, ImageView in, int32_t y, uint8_t* out);

 private:
  std::vector<float> down_, along_;
};

}  // namespace millrace
