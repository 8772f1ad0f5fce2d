#include "transforms/color_rows.h"

#include "transforms/color_kernels.h"

namespace millrace::transforms {

void change_colors(std::span<const ColorStep> steps, const uint8_t* row, int32_t width, uint8_t* out) {
  for (const ColorStep& step : steps) {
    const auto factor = static_cast<float>(step.factor);
    switch (step.op) {
      case ColorOp::brightness: blend_with_level(row, width, 0, factor, out); break;
      case ColorOp::saturation: blend_with_grey(row, width, factor, out); break;
      // torchvision adds int(factor * 255) modulo 256.
      case ColorOp::hue:
        shift_hue(row, width, static_cast<uint8_t>(static_cast<int>(step.factor * 255)), out);
        break;
      case ColorOp::table:
        for (int32_t i = 0; i < width; ++i)
          for (int c = 0; c < 3; ++c)
            out[i * base::kPixelBytes + c] = step.table[256 * c + row[i * base::kPixelBytes + c]];
        break;
      case ColorOp::contrast:
      case ColorOp::none: break;
    }
    row = out;
  }
}

uint8_t mean_grey(base::ImageView picture) {
  uint64_t sum = 0;
  for (int32_t y = 0; y < picture.height; ++y) sum += sum_of_grey(picture.row(y), picture.width);
  return static_cast<uint8_t>(static_cast<double>(sum) / (double(picture.width) * picture.height) + 0.5);
}

}  // namespace millrace::transforms
