#include "transforms/row_mix.h"

#include <array>
#include <cstring>

#include "transforms/kernels.h"
#include "transforms/pixel_buffer.h"
#include "transforms/value_table.h"

namespace millrace::transforms {

size_t RowMixer::bytes() const {
  constexpr size_t kAlignment = PixelBuffer::kAlignment;
  const size_t bytes = of_pixels_ ? static_cast<size_t>(pixels(nullptr).stride_bytes) * size_t(size_.height)
                                  : size_t(size_.height) * size_t(size_.width) * 3 * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

base::ImageView RowMixer::pixels(uint8_t* row) const {
  return {row, size_.width, size_.height, PixelBuffer::stride(size_.width)};
}

void RowMixer::mix(uint8_t* own, uint8_t* other, const RowMix& mix, float* out) const {
  const int64_t plane = int64_t{size_.height} * size_.width;
  const base::Rect box = mix.box.value_or(base::Rect{});
  if (of_pixels_) {
    const base::ImageView first = pixels(own), second = pixels(other);
    for (int32_t y = 0; y < size_.height; ++y) {
      float* const at = out + int64_t{y} * size_.width;
      const std::array<void*, 3> planes{at, at + plane, at + 2 * plane};
      if (!mix.box) {
        mix_to_planes(first.row(y), second.row(y), size_.width, table_, mix.own, mix.other, planes.data());
        continue;
      }
      store_row(first.row(y), size_.width, table_, planes.data());
      if (y < box.top || y >= box.bottom() || box.width == 0) continue;
      const std::array<void*, 3> inside{at + box.left, at + plane + box.left, at + 2 * plane + box.left};
      store_row(second.row(y) + int64_t{box.left} * base::kPixelBytes, box.width, table_, inside.data());
    }
    return;
  }
  const auto *first = reinterpret_cast<const float*>(own), *second = reinterpret_cast<const float*>(other);
  if (!mix.box) {
    for (int64_t i = 0; i < 3 * plane; ++i) out[i] = first[i] * mix.own + second[i] * mix.other;
    return;
  }
  std::memcpy(out, first, static_cast<size_t>(3 * plane) * sizeof(float));
  for (int c = 0; c < 3; ++c)
    for (int32_t y = box.top; y < box.bottom(); ++y) {
      const int64_t at = c * plane + int64_t{y} * size_.width + box.left;
      std::memcpy(out + at, second + at, size_t(box.width) * sizeof(float));
    }
}

}  // namespace millrace::transforms
