// JpegDecoder: any rectangle of a JPEG as RGBX, equal to the last bit to libjpeg-turbo's full decode (islow
// DCT, fancy upsampling) cut to that rectangle, which is what Pillow gives.
//
// Cost: entropy-decodes the stream down to the region's last row and transforms only the blocks that the
// region needs. Baseline grey, 4:4:4, 4:2:2 and 4:2:0 go through our own decoder (baseline_decoder.h);
// everything else (progressive, arithmetic, CMYK/YCCK, RGB, rare samplings) and every stream it finds
// irregular goes through libjpeg-turbo. A file that lost its end is an error for every region.
//
// Damage. Pillow refuses a file for faults between marker segments or in them, for a marker inside a scan
// that does not belong there, and for data that ends too early; wrong entropy-coded bits are warnings, which
// it ignores. So a file is *regular*, and the same picture for everybody, when
//   1. its segments down to the first scan are complete, follow each other directly, and hold one frame
//      (JpegHeader::oddity);
//   2. its scan goes to the end marker without other markers than the restart markers announced, in turn:
//      looked at for every region, however early that ends, since it is part of taking out the byte stuffing
//      (entropy_data.h);
//   3. decoding down to the region's last row meets nothing that libjpeg would warn of. A file of several
//      scans is read whole;
//   4. a progressive one has all its scans: what missing ones leave open, each version of libjpeg smooths in
//      its own way.
// Wrong bits past the last row, or in segments that are jumped over, stay unseen: with 1 and 2, Pillow does
// not refuse the file for them, and has the same pixels in the region. JpegRule::strict refuses files that
// are not regular, for callers that can ask Pillow then; lenient gives libjpeg's picture, and of what reaches
// down to the last row refuses what libjpeg refuses on its way to the end marker.
//
// Threads: one decoder per thread; it keeps its tables and rows between images. Throws Error(corrupt_data).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/geometry.h"
#include "codecs/image_header.h"
#include "codecs/libjpeg_decoder.h"

namespace millrace::codecs {

class JpegDecoder {
 public:
  explicit JpegDecoder(JpegRule rule = JpegRule::lenient);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // `region` lies inside the stored picture; `out` has its size. The fourth byte of a pixel is unspecified.
  void decode(std::span<const uint8_t> bytes, const JpegHeader& header, base::Rect region,
              base::ImageView out);

  // Whether what may be wrong with the file is in its entropy-coded bits alone, and regions cost less than
  // the whole.
  bool decodes_in_parts(std::span<const uint8_t> bytes, const JpegHeader& header);

  // Which path the last decode took: tests and stats ask.
  bool used_baseline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::codecs
