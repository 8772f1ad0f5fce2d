// map_row(): one row of an affine map or of one with a divisor, Pillow's Image.transform(AFFINE or
// PERSPECTIVE) bit for bit.
//
// Nearest pixels of affine maps are found in 16.16 fixed point, as Pillow does below 32,768 pixels a side (it
// changes to f64 above; there the result may be the neighbouring pixel); all others in f64, bilinear and
// bicubic ones rounded down, vectorised by Highway with the bits of the plain version in `scalar`. No state,
// any thread. About 2, 5 and 16 ns a pixel; a divisor costs about 2 ns.
#pragma once

#include <cstdint>
#include <span>

#include "base/geometry.h"
#include "transforms/sample_plan.h"

namespace millrace::transforms {

// Makes the pixels (columns[i], row) of the mapped picture from `window`, the part of the input that begins
// at (map.left, map.top). Negative entries (a padding's) give any pixel.
void map_row(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
             uint8_t* out);

// The bilinear and bicubic kinds alone.
void map_smooth(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                uint8_t* out);
namespace scalar {
void map_smooth(const AffineMap& map, base::ImageView window, std::span<const int32_t> columns, int32_t row,
                uint8_t* out);
}  // namespace scalar

}  // namespace millrace::transforms
