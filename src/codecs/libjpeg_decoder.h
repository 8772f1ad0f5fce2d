// libjpeg_decode: a rectangle of any JPEG through libjpeg-turbo, as Pillow's `.convert("RGB")` would give it.
//
// The complete path: progressive, arithmetic, CMYK, rare samplings, damaged streams. The rule says which of
// the damaged ones are refused (jpeg_decoder.h). Cost: a full entropy decode down to the region's last row,
// and the transforms of the blocks around the region; nothing is kept between calls. Any thread. Throws
// Error(corrupt_data).
#pragma once

#include <cstdint>
#include <span>

#include "base/geometry.h"
#include "codecs/image_header.h"

namespace millrace::codecs {

enum class JpegRule : uint8_t { lenient, strict };

void libjpeg_decode(std::span<const uint8_t> bytes, const JpegHeader& header, base::Rect region,
                    base::ImageView out, JpegRule rule = JpegRule::lenient);

}  // namespace millrace::codecs
