// PngDecoder: any rectangle of a PNG as RGBX, equal to what Pillow's convert("RGB") gives, cut to that
// rectangle.
//
// Cost: inflates down to the region's last row, and undoes filters up to its right edge; interlaced files are
// inflated whole.
// Memory: the inflated bytes, at most 8 a pixel. Damage past the inflated part passes unseen unless a
// checksum shows it (png_file.h).
// Threads: one decoder per thread; it keeps its buffers between images.
// Throws Error(corrupt_data) for pixels that are damaged or too few; Pillow, asked about such a file, may
// still have an answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/geometry.h"
#include "codecs/inflate_prefix.h"
#include "codecs/png_file.h"
#include "codecs/png_rows.h"

namespace millrace::codecs {

class PngDecoder {
 public:
  // `file` is what probe_png(bytes) gave; `region` lies inside the picture and `out` has its size. The fourth
  // byte of a pixel is unspecified.
  void decode(std::span<const uint8_t> bytes, const PngFile& file, base::Rect region, base::ImageView out);

 private:
  std::span<const uint8_t> stream(std::span<const uint8_t> bytes, const PngFile& file);
  void unfilter(uint8_t* rows, int32_t count, size_t row_bytes, size_t wanted_bytes, const PngFile& file);
  void decode_passes(uint8_t* raw, const PngFile& file, base::Rect region, base::ImageView out);

  InflatePrefix inflate_;
  std::vector<uint8_t> joined_;  // the stream of a file with several IDAT chunks
  std::vector<uint8_t> line_;    // zeros above the first row; a row of an interlace pass as RGBX
};

}  // namespace millrace::codecs
