#include "transforms/row_mix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "transforms/kernels.h"
#include "transforms/number_steps.h"
#include "transforms/pixel_buffer.h"
#include "transforms/value_table.h"

namespace millrace::transforms {
namespace {

// Returns the lines with numbers that depend on more than the pixels, in one row or the other: all lines if
// there is noise, else from the first erased line to the last.
RowMixer::Lines lines_with_numbers(const NumberSteps& own, const NumberSteps& other, int32_t height) {
  if (own.noise.spec || other.noise.spec) return {0, height};
  RowMixer::Lines lines{height, 0};
  for (const NumberSteps* steps : {&own, &other})
    for (const Erasure& erasure : steps->erasures) {
      lines.begin = std::min(lines.begin, erasure.box.top);
      lines.end = std::max(lines.end, erasure.box.bottom());
    }
  return lines;
}

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
  const Lines changed = lines_with_numbers(own.numbers, other.numbers, size_.height);
  if (changed.begin > 0 || changed.end < size_.height) mix_pixels(own, other, mix, out);
  if (changed.begin >= changed.end) return;
  thread_local std::vector<float> finished;  // kept: fresh pages would cost more than the work
  finished.resize(size_t(size_.height) * size_t(size_.width) * 3);
  finish(own, changed, out);
  finish(other, changed, finished.data());
  mix_numbers(finished.data(), changed, mix, out);
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

void RowMixer::finish(const HalfRow& row, Lines lines, float* out) const {
  const base::ImageView pixels = view(row.pixels);
  for (int32_t y = lines.begin; y < lines.end; ++y)
    store_row(pixels.row(y), size_.width, table_, row_of_planes(out, size_, y).data());
  finish_numbers(row.numbers, size_, table_.type, out);
}

// `out` has the row's own before.
void RowMixer::mix_numbers(const float* other, Lines lines, const RowMix& mix, float* out) const {
  const int64_t plane = int64_t{size_.height} * size_.width;
  for (int c = 0; c < 3; ++c) {
    const int64_t first = c * plane + int64_t{lines.begin} * size_.width,
                  last = c * plane + int64_t{lines.end} * size_.width;
    if (!mix.box) {
      for (int64_t i = first; i < last; ++i) out[i] = out[i] * mix.own + other[i] * mix.other;
      continue;
    }
    for (int32_t y = std::max(lines.begin, mix.box->top); y < std::min(lines.end, mix.box->bottom()); ++y) {
      const int64_t at = c * plane + int64_t{y} * size_.width + mix.box->left;
      std::memcpy(out + at, other + at, size_t(mix.box->width) * sizeof(float));
    }
  }
}

}  // namespace millrace::transforms
