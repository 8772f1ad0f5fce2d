#include "transforms/color_rows.h"

#include <cstring>

#include "transforms/box_blur.h"
#include "transforms/byte_pixels.h"
#include "transforms/color_kernels.h"
#include "transforms/level_tables.h"
#include "transforms/sharpen_kernel.h"

namespace millrace::transforms {
namespace {

template <class Op>
void change_row(const uint8_t* row, int32_t width, PixelAmount amount, uint8_t* out) {
  if constexpr (requires { Op::row(row, width, amount, out); }) {
    Op::row(row, width, amount, out);
  } else if constexpr (requires { Op::byte(0, amount); }) {  // the fourth of each pixel, too
    for (int64_t i = 0; i < int64_t{width} * base::kPixelBytes; ++i)
      out[i] = static_cast<uint8_t>(Op::byte(row[i], amount));
  } else {
    for (int32_t i = 0; i < width; ++i, row += base::kPixelBytes, out += base::kPixelBytes) {
      const Rgb8 p = Op::pixel({row[0], row[1], row[2]}, amount);
      out[0] = static_cast<uint8_t>(p.r), out[1] = static_cast<uint8_t>(p.g),
      out[2] = static_cast<uint8_t>(p.b);
    }
  }
}

void look_up(const uint8_t* row, int32_t width, const uint8_t* table, uint8_t* out) {
  for (int32_t i = 0; i < width; ++i, row += base::kPixelBytes, out += base::kPixelBytes)
    for (int c = 0; c < 3; ++c) out[c] = table[256 * c + row[c]];
}

}  // namespace

void change_colors(std::span<const ColorStep> steps, const uint8_t* row, int32_t width, uint8_t* out) {
  for (const ColorStep& step : steps) {
    if (step.table != nullptr)
      look_up(row, width, step.table, out);
    else
      PixelOps::with(step.kind,
                     [&]<class Op>(Op) { change_row<Op>(row, width, Op::amount(step.value), out); });
    row = out;
  }
}

PictureChange::PictureChange(const ColorStep& step, base::ImageView picture, PictureMemory& memory)
    : step_(step), picture_(picture) {
  if (step.kind == AugmentKind::gaussian_blur) picture_ = blur_picture(picture, step.value, memory.blurred);
  if (step.mix != nullptr) {
    if (!memory.mixer) memory.mixer = std::make_unique<PictureMixer>();
    picture_ = memory.mixer->mixed(*step.mix, picture);
  }
  if (step.kind == AugmentKind::contrast) level_ = mean_grey(picture);
  if (step.kind != AugmentKind::autocontrast && step.kind != AugmentKind::equalize) return;
  const auto counts = histogram_of(picture);
  for (int c = 0; c < 3; ++c)
    if (step.kind == AugmentKind::equalize)
      equalize_table(counts[c].data(), table_[c].data());
    else
      autocontrast_table(counts[c].data(), table_[c].data());
}

void PictureChange::row(int32_t y, uint8_t* out) const {
  const uint8_t* row = picture_.row(y);
  const int32_t width = picture_.width;
  const auto factor = static_cast<float>(step_.value);
  if (step_.kind == AugmentKind::contrast) return blend_with_level(row, width, level_, factor, out);
  if (step_.kind == AugmentKind::gaussian_blur || step_.mix != nullptr) {
    std::memcpy(out, row, size_t(width) * base::kPixelBytes);
    return;
  }
  if (step_.kind != AugmentKind::sharpness) return look_up(row, width, table_[0].data(), out);
  const bool at_edge = y == 0 || y == picture_.height - 1;
  sharpen_row(at_edge ? row : picture_.row(y - 1), row, at_edge ? row : picture_.row(y + 1), width, at_edge,
              factor, out);
}

uint8_t mean_grey(base::ImageView picture) {
  uint64_t sum = 0;
  for (int32_t y = 0; y < picture.height; ++y) sum += sum_of_grey(picture.row(y), picture.width);
  return static_cast<uint8_t>(mean_level(sum, picture.width, picture.height));
}

std::array<std::array<int64_t, 256>, 3> histogram_of(base::ImageView picture) {
  std::array<std::array<int64_t, 256>, 3> counts{};
  for (int32_t y = 0; y < picture.height; ++y) {
    const uint8_t* pixel = picture.row(y);
    for (int32_t x = 0; x < picture.width; ++x, pixel += base::kPixelBytes)
      for (int c = 0; c < 3; ++c) ++counts[c][pixel[c]];
  }
  return counts;
}

}  // namespace millrace::transforms
