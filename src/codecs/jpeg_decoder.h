// JpegDecoder: any rectangle of a JPEG as RGBX, equal to the last bit to libjpeg-turbo's full decode (islow DCT, fancy
// upsampling) cut to that rectangle, which is what Pillow gives.
//
// Cost: entropy-decodes the stream down to the region's last row and transforms only the blocks that the region needs.
// Baseline grey, 4:4:4, 4:2:2 and 4:2:0 go through our own decoder (baseline_decoder.h); everything else (progressive,
// arithmetic, CMYK/YCCK, RGB, rare samplings) and every stream it finds irregular goes through libjpeg-turbo, whose verdict on
// damage is thus the only one. A file that lost its end is an error for every region; other damage behind the region's last row
// may pass unseen.
// Threads: one decoder per thread; it keeps its tables and rows between images. Throws Error(corrupt_data).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/geometry.h"
#include "codecs/image_header.h"

namespace millrace {

class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `region` lies inside the stored picture; `out` has its size. The fourth byte of a pixel is unspecified.
  void decode(std::span<const uint8_t> bytes, const JpegHeader& header, Rect region, ImageView out);

  // Which path the last decode took: tests and stats ask.
  bool used_baseline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace
