// Rows of a PNG: undoes their filters and turns them into RGBX. Pure, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "codecs/png_file.h"

namespace millrace::codecs {

// Undoes `filter` on the first `bytes` of a row in place. `above` is the row before, already undone; zeros
// for the first. Both may be read up to 8 bytes past `bytes`. `pixel_bytes`: the distance to the left
// neighbour, 1 for pixels smaller than a byte. False when there is no such filter.
bool unfilter_row(int filter, uint8_t* row, const uint8_t* above, size_t bytes, size_t pixel_bytes);

// Rows of one file as RGBX, as Pillow's convert("RGB") has them: alpha and transparency dropped, 16 bits cut
// to the upper 8, but grey ones clipped at 255.
class PngColors {
 public:
  explicit PngColors(const PngFile& file);
  // `count` pixels of `row`, from pixel `first` on.
  void expand(const uint8_t* row, int32_t first, int32_t count, uint8_t* rgbx) const;

 private:
  void look_up(const uint8_t* row, int32_t first, int32_t count, uint8_t* rgbx) const;

  const int depth_;
  const PngColor color_;
  std::array<uint32_t, 256>
      table_;  // the RGBX of each value of a grey or palette pixel of at most 8 bits, as it lies in memory
};

}  // namespace millrace::codecs
