// Rows of samples to rows of RGBX pixels: chroma upsampling and YCbCr to RGB, equal to libjpeg's to the last
// bit.
//
// Upsampling is libjpeg's "fancy" one, a triangle filter: a chroma sample that covers two pixels gives each
// of them 3/4 of itself and 1/4 of its neighbour on that side, first down the columns (blend), then along the
// row. Colour is BT.601 full range in 16-bit fixed point with its rounding. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::codecs {

struct UpsampleColor {
  // How much readers may read past a row and `blend` may write past `count`: buffers carry this many elements
  // more.
  static constexpr size_t kSlack = 64;

  // sums[i] = 3 near[i] + far[i]. Without vertical upsampling far is near.
  void (*blend)(const uint8_t* near, const uint8_t* far, size_t count, uint16_t* sums);

  // Pixels `first` .. `first + count - 1` of a row; pixel p takes chroma from sums p / 2 and its neighbour,
  // so sums[-1] and the sum after the last are read too: the caller sets them at the picture's edges. Writes
  // exactly count pixels. The rounding terms are libjpeg's: 8 and 7 with vertical upsampling, 4 and 8
  // without.
  void (*halved)(const uint8_t* luma, const uint16_t* cb_sums, const uint16_t* cr_sums, int round_even,
                 int round_odd, size_t first, size_t count, uint8_t* out);

  // Chroma as wide as luma.
  void (*full)(const uint8_t* luma, const uint8_t* cb, const uint8_t* cr, size_t count, uint8_t* out);

  void (*grey)(const uint8_t* luma, size_t count, uint8_t* out);
};

UpsampleColor upsample_color();  // the best for this machine

}  // namespace millrace::codecs
