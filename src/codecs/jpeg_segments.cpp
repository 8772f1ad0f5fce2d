#include "codecs/jpeg_segments.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace millrace::codecs {
namespace {

using Bytes = std::span<const uint8_t>;
using namespace std::string_view_literals;

bool begins(Bytes segment, std::string_view tag, size_t at = 0) {
  return segment.size() >= at + tag.size() &&
         std::equal(tag.begin(), tag.end(), segment.begin() + static_cast<ptrdiff_t>(at),
                    [](char letter, uint8_t byte) { return static_cast<uint8_t>(letter) == byte; });
}

// Photoshop's resources follow each other: "8BIM", an id of 2 bytes, the length of a name, the name, padding
// to an even place, a size of 4 bytes, so many bytes. Where a name's length is missing Pillow gives up on the
// file; it forgives cuts elsewhere.
bool names_are_there(Bytes segment) {
  size_t at = 14;
  while (begins(segment, "8BIM"sv, at)) {
    at += 6;
    if (at > segment.size()) return true;
    if (at == segment.size()) return false;
    at += 1 + size_t{segment[at]};
    at += at & 1;
    if (at + 4 > segment.size()) return true;
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | segment[at + i];
    at += 4 + size;
    at += at & 1;
  }
  return true;
}

const char* tables_oddity(Bytes segment) {
  while (!segment.empty()) {
    const size_t bytes = segment[0] >> 4 ? 129 : 65;
    if (segment.size() < bytes) return "a quantization table that is cut short";
    segment = segment.subspan(bytes);
  }
  return nullptr;
}

}  // namespace

const char* segment_oddity(uint8_t marker, Bytes segment) {
  switch (marker) {
    case 0xC0:  // sequential, extended, progressive; the same two with arithmetic coding
    case 0xC1:
    case 0xC2:
    case 0xC9:
    case 0xCA:
      return segment.size() >= 6 && segment.size() == 6 + 3 * size_t{segment[5]}
                 ? nullptr
                 : "a frame header of a wrong length";
    case 0xDB: return tables_oddity(segment);
    case 0xDD: return segment.size() == 2 ? nullptr : "a restart interval of a wrong length";
    case 0xE0:
      return begins(segment, "JFIF"sv) && segment.size() < 14 ? "a JFIF segment that is cut short" : nullptr;
    case 0xE2:
      return begins(segment, "ICC_PROFILE\0"sv) && segment.size() < 14
                 ? "a piece of a colour profile that is cut short"
                 : nullptr;
    case 0xED:
      return begins(segment, "Photoshop 3.0\0"sv) && !names_are_there(segment)
                 ? "a Photoshop segment that is cut short"
                 : nullptr;
    case 0xEE:
      return begins(segment, "Adobe"sv) && segment.size() < 12 ? "an Adobe segment that is cut short"
                                                               : nullptr;
    case 0xC4:
    case 0xCC:
    case 0xDA:
    case 0xFE: return nullptr;
    default: break;
  }
  return marker >= 0xE0 && marker <= 0xEF ? nullptr : "a segment of a kind that is rare";
}

}  // namespace millrace::codecs
