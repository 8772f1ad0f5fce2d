#include "transforms/blur_rows.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

template <class T>
void add_weighted(const T* in, float weight, size_t count, float* sums) {
  for (size_t i = 0; i < count; ++i) sums[i] += weight * static_cast<float>(in[i]);
}

}  // namespace

void BlurRows::row(const BlurKernels& kernels, ImageView in, int32_t y, uint8_t* out) {
  down_.assign(size_t(in.width) * kPixelBytes, 0);
  for (const float weight : kernels.y) add_weighted(in.row(y++), weight, down_.size(), down_.data());
  along_.assign(down_.size() - (kernels.x.size() - 1) * kPixelBytes, 0);
  for (size_t i = 0; i < kernels.x.size(); ++i)
    add_weighted(down_.data() + i * kPixelBytes, kernels.x[i], along_.size(), along_.data());
  // The weights' sum may exceed one by some last bits. Half-way values round to even, as torch's do.
  for (size_t i = 0; i < along_.size(); ++i) out[i] = static_cast<uint8_t>(std::nearbyint(std::min(along_[i], 255.0f)));
}

}  // namespace millrace
