// sharpen_row(): one row of Pillow's ImageEnhance.Sharpness, bit for bit.
//
// Each pixel is blended with the mean of its neighbourhood, (8 neighbours + 5 x itself) / 13, as
// ImageFilter.SMOOTH makes it; Pillow leaves the outermost pixels alone. Vectorised by Highway with the bits
// of the plain version in `scalar`. No state, any thread. `out` is none of the rows, and has kRowSlack bytes
// of room past its last pixel.
#pragma once

#include <cstdint>

namespace millrace::transforms {

// Rows of RGBX. at_edge: this is the first or last row, which is blended with itself. factor: 1 for no
// change.
void sharpen_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, int32_t width, bool at_edge,
                 float factor, uint8_t* out);

namespace scalar {
void sharpen_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, int32_t width, bool at_edge,
                 float factor, uint8_t* out);
}  // namespace scalar

}  // namespace millrace::transforms
