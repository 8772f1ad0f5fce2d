#include "transforms/color_rows.h"

#include <cstring>

#include "transforms/box_blur.h"
#include "transforms/byte_pixels.h"
#include "transforms/color_kernels.h"
#include "transforms/level_tables.h"
#include "transforms/sharpen_kernel.h"

namespace millrace::transforms {
namespace {

// `change(byte)` for each byte of a row, the fourth of each pixel too.
template <class Change>
void change_bytes(const uint8_t* row, int32_t width, uint8_t* out, Change change) {
  const int64_t count = int64_t{width} * base::kPixelBytes;
  for (int64_t i = 0; i < count; ++i) out[i] = change(row[i]);
}

void look_up(const uint8_t* row, int32_t width, const uint8_t* table, uint8_t* out) {
  for (int32_t i = 0; i < width; ++i, row += base::kPixelBytes, out += base::kPixelBytes)
    for (int c = 0; c < 3; ++c) out[c] = table[256 * c + row[c]];
}

// `from`: where each channel comes from, two bits each. `out` may be `row`.
void permute_channels(const uint8_t* row, int32_t width, unsigned from, uint8_t* out) {
  for (int32_t i = 0; i < width; ++i, row += base::kPixelBytes, out += base::kPixelBytes) {
    const std::array<uint8_t, 3> pixel{row[0], row[1], row[2]};
    for (unsigned c = 0; c < 3; ++c) out[c] = pixel[from >> 2 * c & 3];
  }
}

}  // namespace

std::optional<ColorStep> color_step(const AugmentStep& step) {
  switch (step.kind) {
    case AugmentKind::brightness: return ColorStep{ColorChange::brightness, step.value};
    case AugmentKind::contrast: return ColorStep{ColorChange::contrast, step.value};
    case AugmentKind::saturation: return ColorStep{ColorChange::saturation, step.value};
    case AugmentKind::sharpness: return ColorStep{ColorChange::sharpness, step.value};
    case AugmentKind::posterize: return ColorStep{ColorChange::posterize, step.value};
    case AugmentKind::solarize: return ColorStep{ColorChange::solarize, step.value};
    case AugmentKind::solarize_add: return ColorStep{ColorChange::solarize_add, step.value};
    case AugmentKind::autocontrast: return ColorStep{ColorChange::autocontrast};
    case AugmentKind::equalize: return ColorStep{ColorChange::equalize};
    case AugmentKind::invert: return ColorStep{ColorChange::solarize};
    case AugmentKind::gaussian_blur:
      if (step.value > 0) return ColorStep{ColorChange::gaussian_blur, step.value};
      return std::nullopt;
    case AugmentKind::identity:
    case AugmentKind::shear_x:
    case AugmentKind::shear_y:
    case AugmentKind::translate_x:
    case AugmentKind::translate_y:
    case AugmentKind::rotate: break;
  }
  return std::nullopt;
}

void change_colors(std::span<const ColorStep> steps, const uint8_t* row, int32_t width, uint8_t* out) {
  for (const ColorStep& step : steps) {
    const auto factor = static_cast<float>(step.value);
    switch (step.change) {
      case ColorChange::brightness: blend_with_level(row, width, 0, factor, out); break;
      case ColorChange::saturation: blend_with_grey(row, width, factor, out); break;
      // torchvision adds int(factor * 255) modulo 256.
      case ColorChange::hue:
        shift_hue(row, width, static_cast<uint8_t>(static_cast<int>(step.value * 255)), out);
        break;
      case ColorChange::permute: permute_channels(row, width, static_cast<unsigned>(step.value), out); break;
      case ColorChange::table: look_up(row, width, step.table, out); break;
      case ColorChange::posterize: {
        const int32_t mask = posterize_mask(step.value);
        change_bytes(row, width, out, [mask](uint8_t v) { return static_cast<uint8_t>(v & mask); });
        break;
      }
      case ColorChange::solarize: {
        const int32_t from = solarize_from(step.value);
        change_bytes(row, width, out,
                     [from](uint8_t v) { return static_cast<uint8_t>(solarized8(v, from)); });
        break;
      }
      case ColorChange::solarize_add: {
        const auto more = static_cast<int>(step.value);
        change_bytes(row, width, out,
                     [more](uint8_t v) { return static_cast<uint8_t>(solarize_added8(v, more)); });
        break;
      }
      case ColorChange::contrast:
      case ColorChange::sharpness:
      case ColorChange::autocontrast:
      case ColorChange::equalize:
      case ColorChange::gaussian_blur:
      case ColorChange::mix: break;  // PictureChange
    }
    row = out;
  }
}

PictureChange::PictureChange(const ColorStep& step, base::ImageView picture, PictureMemory& memory)
    : step_(step), picture_(picture) {
  if (step.change == ColorChange::gaussian_blur) picture_ = blur_picture(picture, step.value, memory.blurred);
  if (step.change == ColorChange::mix) {
    if (!memory.mixer) memory.mixer = std::make_unique<PictureMixer>();
    picture_ = memory.mixer->mixed(*step.mix, picture);
  }
  if (step.change == ColorChange::contrast) level_ = mean_grey(picture);
  if (step.change != ColorChange::autocontrast && step.change != ColorChange::equalize) return;
  const auto counts = histogram_of(picture);
  for (int c = 0; c < 3; ++c)
    if (step.change == ColorChange::equalize)
      equalize_table(counts[c].data(), table_[c].data());
    else
      autocontrast_table(counts[c].data(), table_[c].data());
}

void PictureChange::row(int32_t y, uint8_t* out) const {
  const uint8_t* row = picture_.row(y);
  const int32_t width = picture_.width;
  const auto factor = static_cast<float>(step_.value);
  if (step_.change == ColorChange::contrast) return blend_with_level(row, width, level_, factor, out);
  if (step_.change == ColorChange::gaussian_blur || step_.change == ColorChange::mix) {
    std::memcpy(out, row, size_t(width) * base::kPixelBytes);
    return;
  }
  if (step_.change != ColorChange::sharpness) return look_up(row, width, table_[0].data(), out);
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
