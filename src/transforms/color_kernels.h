// The inner loops of colour changes: Pillow's 8-bit arithmetic on rows of RGBX, bit for bit (tested for all
// 2^24 colours).
//
// Every function exists twice: in `scalar`, which defines the results, and vectorised by Highway with the
// same bits. No state, any thread. `out` may be `in`; it has kRowSlack bytes of room past its last pixel
// (pixel_buffer.h), and its X bytes have no meaning.
#pragma once

#include <cstdint>

namespace millrace::transforms {

// Image.blend with a picture of one grey: grey + factor * (v - grey), cut off at 0 and 255 and rounded down.
// Brightness, contrast.
void blend_with_level(const uint8_t* in, int32_t width, uint8_t level, float factor, uint8_t* out);

// The same with each pixel's own grey, which is Pillow's convert("L"). Saturation.
void blend_with_grey(const uint8_t* in, int32_t width, float factor, uint8_t* out);

// To HSV and back, `shift` 255ths of the colour circle further on.
void shift_hue(const uint8_t* in, int32_t width, uint8_t shift, uint8_t* out);

// The sum of convert("L") over a row.
uint64_t sum_of_grey(const uint8_t* row, int32_t width);

namespace scalar {
void blend_with_level(const uint8_t* in, int32_t width, uint8_t level, float factor, uint8_t* out);
void blend_with_grey(const uint8_t* in, int32_t width, float factor, uint8_t* out);
void shift_hue(const uint8_t* in, int32_t width, uint8_t shift, uint8_t* out);
uint64_t sum_of_grey(const uint8_t* row, int32_t width);
}  // namespace scalar

}  // namespace millrace::transforms
