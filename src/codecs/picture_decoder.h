// PictureDecoder: probes a picture of any format that has a codec here, then decodes any rectangle of it.
//
// The last word is Pillow's: what it makes of a damaged file is beyond any rule, so where this refuses one,
// by Error(corrupt_data) or, when nothing is wrong but there is no codec, Error(unavailable), a caller that
// has Pillow asks it. Without such a fallback, a caller gets libjpeg's picture of a damaged JPEG
// (JpegRule::lenient). One decoder per thread; it keeps its buffers between pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/geometry.h"
#include "codecs/image_header.h"
#include "codecs/libjpeg_decoder.h"
#include "codecs/png_file.h"
#include "millrace/error.h"

namespace millrace::codecs {

// The mode of a picture before any conversion: Pillow's modes L and RGB. `other`: all other modes, and
// pictures of a mode not known here, as WebP's, which may have alpha in their pixels.
enum class StoredMode : uint8_t { other, grey, rgb };

struct PictureHeader {
  ImageFormat format = ImageFormat::unknown;
  int32_t width = 0, height = 0;  // as stored, before orientation
  int orientation = 1;            // EXIF 1..8
  StoredMode mode = StoredMode::other;
};

// Whether a fallback decoder has the last word, after `refusal` by a PictureDecoder. It has not about bombs
// (kMaxJpegScans).
bool left_to_fallback(const Error& refusal, std::span<const uint8_t> bytes);

class PictureDecoder {
 public:
  // PNG and WebP of more pixels than `most_quiet_pixels` are refused, Error(unavailable): a fallback decoder
  // warns of them, or refuses them by a limit of its user, and so are PNGs beyond `texts`. By default
  // Pillow's.
  explicit PictureDecoder(JpegRule rule = JpegRule::lenient, int64_t most_quiet_pixels = kMaxPixels / 2,
                          const PngTextLimits& texts = {});
  ~PictureDecoder();
  PictureDecoder(const PictureDecoder&) = delete;
  PictureDecoder& operator=(const PictureDecoder&) = delete;

  // `bytes` stay where they are until the last decode().
  PictureHeader probe(std::span<const uint8_t> bytes);

  // Of what was probed last. `region` lies inside the stored picture; `out` has its size. The fourth byte of
  // a pixel is unspecified.
  void decode(base::Rect region, base::ImageView out);

  // Of what was probed last: whether no decoder can refuse it any more, and a part costs less than the whole.
  bool decodes_in_parts();

  // What probe() found when it was a JPEG, else null.
  const JpegHeader* jpeg() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::codecs
