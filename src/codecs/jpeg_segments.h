// segment_oddity: whether all readers of JPEG agree about one marker segment.
//
// libjpeg skips what it need not know; Pillow reads more (JFIF, ICC, Adobe and Photoshop segments) and
// refuses a file where such a one is too short. A segment is regular when both take it. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace millrace::codecs {

// Returns the oddity of a segment before the first scan, or null. `segment`: the bytes after its two bytes of
// length.
const char* segment_oddity(uint8_t marker, std::span<const uint8_t> segment);

}  // namespace millrace::codecs
