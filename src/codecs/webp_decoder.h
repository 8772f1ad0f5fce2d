// WebPDecoder: any rectangle of a WebP as RGBX, equal to what Pillow's convert("RGB") gives, cut to that
// rectangle. Of an animation it is the first frame on its canvas.
//
// Cost: libwebp reads down to the region's last row, and filters, upsamples and converts only what the region
// needs.
// Threads: one decoder per thread. Throws Error(corrupt_data); Error(unavailable) for metadata about which
// Pillow has to be asked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/geometry.h"

namespace millrace::codecs {

struct WebPFile {
  int32_t width = 0, height = 0;  // of the canvas, before orientation
  int orientation = 1;            // EXIF 1..8, from EXIF or XMP as Pillow's getexif() finds it
  base::Rect frame;               // where the first frame lies; around it is black
  bool lossless = false;
  std::span<const uint8_t> data;  // the first frame's, within the file
};

// Checks how the file is put together, so that a truncated one is refused here. Decodes nothing.
WebPFile probe_webp(std::span<const uint8_t> bytes);

class WebPDecoder {
 public:
  // `file` is what probe_webp() gave, its bytes still there; `region` lies inside the picture and `out` has
  // its size. The fourth byte of a pixel is unspecified.
  void decode(const WebPFile& file, base::Rect region, base::ImageView out);

 private:
  std::vector<uint8_t> pixels_;  // a region with the margin around it
};

}  // namespace millrace::codecs
