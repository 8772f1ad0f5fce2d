#include "transforms/row_mix.h"

#include <array>
#include <cstring>
#include <vector>

#include "transforms/kernels.h"
#include "transforms/number_steps.h"
#include "transforms/pixel_buffer.h"
#include "transforms/value_table.h"

namespace millrace::transforms {
namespace {

// Row `y` of a tensor's three planes, from column `x` on.
std::array<void*, 3> row_of_planes(float* out, PictureSize size, int32_t y, int32_t x = 0) {
  const int64_t plane = int64_t{size.height} * size.width;
  float* const at = out + int64_t{y} * size.width + x;
  return {at, at + plane, at + 2 * plane};
}

}  // namespace

size_t RowMixer::bytes() const {
  constexpr size_t kAlignment = PixelBuffer::kAlignment;
  const size_t bytes = static_cast<size_t>(PixelBuffer::stride(size_.width)) * size_t(size_.height);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

base::ImageView RowMixer::view(uint8_t* pixels) const {
  return {pixels, size_.width, size_.height, PixelBuffer::stride(size_.width)};
}

void RowMixer::mix(const HalfRow& own, const HalfRow& other, const RowMix& mix, float* out) const {
  if (own.numbers.empty() && other.numbers.empty()) return mix_pixels(own, other, mix, out);
  thread_local std::vector<float> finished;  // kept: fresh pages would cost more than the work
  finished.resize(size_t(size_.height) * size_t(size_.width) * 3);
  finish(own, out);
  finish(other, finished.data());
  mix_numbers(finished.data(), mix, out);
}

void RowMixer::mix_pixels(const HalfRow& own, const HalfRow& other, const RowMix& mix, float* out) const {
  const base::ImageView first = view(own.pixels), second = view(other.pixels);
  const base::Rect box = mix.box.value_or(base::Rect{});
  for (int32_t y = 0; y < size_.height; ++y) {
    const auto planes = row_of_planes(out, size_, y);
    if (!mix.box) {
      mix_to_planes(first.row(y), second.row(y), size_.width, table_, mix.own, mix.other, planes.data());
      continue;
    }
    store_row(first.row(y), size_.width, table_, planes.data());
    if (y < box.top || y >= box.bottom() || box.width == 0) continue;
    const auto inside = row_of_planes(out, size_, y, box.left);
    store_row(second.row(y) + int64_t{box.left} * base::kPixelBytes, box.width, table_, inside.data());
  }
}

void RowMixer::finish(const HalfRow& row, float* out) const {
  const base::ImageView pixels = view(row.pixels);
  for (int32_t y = 0; y < size_.height; ++y)
    store_row(pixels.row(y), size_.width, table_, row_of_planes(out, size_, y).data());
  finish_numbers(row.numbers, size_, table_.type, out);
}

// `out` is the row's own before.
void RowMixer::mix_numbers(const float* other, const RowMix& mix, float* out) const {
  const int64_t plane = int64_t{size_.height} * size_.width;
  if (!mix.box) {
    for (int64_t i = 0; i < 3 * plane; ++i) out[i] = out[i] * mix.own + other[i] * mix.other;
    return;
  }
  for (int c = 0; c < 3; ++c)
    for (int32_t y = mix.box->top; y < mix.box->bottom(); ++y) {
      const int64_t at = c * plane + int64_t{y} * size_.width + mix.box->left;
      std::memcpy(out + at, other + at, size_t(mix.box->width) * sizeof(float));
    }
}

}  // namespace millrace::transforms
