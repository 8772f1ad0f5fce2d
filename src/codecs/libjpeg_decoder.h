// libjpeg_decode: a rectangle of any JPEG through libjpeg-turbo, as Pillow's `.convert("RGB")` would give it.
//
// The complete path: progressive, arithmetic, CMYK, rare samplings, damaged streams. libjpeg's warnings are ignored and a stream
// that ends early is an error, both as Pillow does by default. Cost: a full entropy decode down to the region's last row, and
// the transforms of the blocks around the region; nothing is kept between calls. Any thread. Throws Error(corrupt_data).
#pragma once

#include <cstdint>
#include <span>

#include "base/geometry.h"
#include "codecs/image_header.h"

namespace millrace {

void libjpeg_decode(std::span<const uint8_t> bytes, const JpegHeader& header, Rect region, ImageView out);

}  // namespace millrace
