#include "codecs/baseline_stream.h"

#include <algorithm>
#include <cstring>

namespace millrace::codecs {
namespace {

using Bytes = std::span<const uint8_t>;

uint32_t two_bytes(Bytes b, size_t at) { return uint32_t{b[at]} << 8 | b[at + 1]; }

bool begins(Bytes segment, const char* tag, size_t tag_bytes, size_t least_bytes) {
  return segment.size() >= least_bytes && std::memcmp(segment.data(), tag, tag_bytes) == 0;
}

}  // namespace

const std::array<uint8_t, 64> kZigzag = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                         12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                         35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                         58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

bool BaselineStream::parse(Bytes bytes) {
  components = 0;
  restart_interval = 0;
  quant_present_ = 0;
  for (int i = 0; i < 4; ++i) dc[i].present = ac[i].present = false;
  bool jfif = false, adobe = false;
  uint8_t adobe_transform = 0;

  if (bytes.size() < 4 || bytes[0] != 0xFF || bytes[1] != 0xD8) return false;
  size_t at = 2;
  while (at + 4 <= bytes.size() && bytes[at] == 0xFF) {
    const uint8_t marker = bytes[at + 1];
    const size_t length = two_bytes(bytes, at + 2);
    if (length < 2 || at + 2 + length > bytes.size()) return false;
    const Bytes segment = bytes.subspan(at + 4, length - 2);
    at += 2 + length;
    switch (marker) {
      case 0xC0:
      case 0xC1:
        if (!parse_frame(segment)) return false;
        break;
      case 0xC4:
        if (!parse_huffman(segment)) return false;
        break;
      case 0xDB:
        if (!parse_quant(segment)) return false;
        break;
      case 0xDD:
        if (segment.size() != 2) return false;
        restart_interval = static_cast<int32_t>(two_bytes(segment, 0));
        break;
      case 0xE0: jfif |= begins(segment, "JFIF", 5, 14); break;
      case 0xEE:
        if (begins(segment, "Adobe", 5, 12)) {
          adobe = true;
          adobe_transform = segment[11];
        }
        break;
      case 0xDA: {
        scan_begin = at;
        if (!parse_scan(segment)) return false;
        if (components == 1) return true;
        // libjpeg's rule for three components: JFIF means YCbCr, else Adobe's flag decides, else the
        // component names.
        if (jfif) return true;
        if (adobe) return adobe_transform == 1;
        return component[0].id == 1 && component[1].id == 2 && component[2].id == 3;
      }
      default:
        if ((marker < 0xE0 || marker > 0xEF) && marker != 0xFE) return false;
    }
  }
  return false;
}

bool BaselineStream::parse_quant(Bytes segment) {
  while (!segment.empty()) {
    const unsigned id = segment[0];  // a high nibble of 1 means 16-bit values
    if (id > 3 || segment.size() < 65) return false;
    for (size_t k = 0; k < 64; ++k) quant[id][kZigzag[k]] = segment[1 + k];
    quant_present_ |= 1u << id;
    segment = segment.subspan(65);
  }
  return true;
}

bool BaselineStream::parse_huffman(Bytes segment) {
  while (!segment.empty()) {
    const unsigned id = segment[0] & 0x0F, is_ac = segment[0] >> 4;
    if (id > 3 || is_ac > 1 || segment.size() < 17) return false;
    HuffmanSpec& spec = is_ac ? ac[id] : dc[id];
    std::copy_n(segment.data() + 1, 16, spec.counts.begin());
    size_t total = 0;
    for (uint8_t count : spec.counts) total += count;
    if (total > 256 || segment.size() < 17 + total) return false;
    std::copy_n(segment.data() + 17, total, spec.symbols.begin());
    std::fill(spec.symbols.begin() + static_cast<ptrdiff_t>(total), spec.symbols.end(), uint8_t{0});
    spec.present = true;
    segment = segment.subspan(17 + total);
  }
  return true;
}

bool BaselineStream::parse_frame(Bytes segment) {
  if (components != 0 || segment.size() < 6 || segment[0] != 8) return false;
  height = static_cast<int32_t>(two_bytes(segment, 1));
  width = static_cast<int32_t>(two_bytes(segment, 3));
  const int count = segment[5];
  if (width == 0 || height == 0 || (count != 1 && count != 3) ||
      segment.size() != 6 + 3 * static_cast<size_t>(count))
    return false;
  for (int i = 0; i < count; ++i) {
    const size_t entry = 6 + 3 * static_cast<size_t>(i);
    const int h = segment[entry + 1] >> 4, v = segment[entry + 1] & 15;
    component[i].id = segment[entry];
    component[i].quant = segment[entry + 2];
    if (component[i].quant > 3 || h < 1 || h > 4 || v < 1 || v > 4) return false;
    if (i == 0) {
      luma_h = count == 1
                   ? 1
                   : h;  // the scan of a single component is not interleaved: its blocks come row by row
      luma_v = count == 1 ? 1 : v;
    } else if (h != 1 || v != 1) {
      return false;
    }
  }
  if (luma_h > 2 || luma_v > luma_h) return false;
  // Up to two chroma columns libjpeg repeats samples where it would otherwise interpolate.
  if (luma_h == 2 && width <= 4) return false;
  if (count == 3 && (component[0].id == component[1].id || component[0].id == component[2].id ||
                     component[1].id == component[2].id))
    return false;
  components = count;
  return true;
}

bool BaselineStream::parse_scan(Bytes segment) {
  if (components == 0 || segment.size() != 4 + 2 * static_cast<size_t>(components) ||
      segment[0] != components)
    return false;
  for (int i = 0; i < components; ++i) {
    Component& c = component[i];
    const uint8_t tables = segment[2 + 2 * static_cast<size_t>(i)];
    if (segment[1 + 2 * static_cast<size_t>(i)] != c.id) return false;
    c.dc = tables >> 4;
    c.ac = tables & 15;
    if (c.dc > 3 || c.ac > 3 || !dc[c.dc].present || !ac[c.ac].present || !(quant_present_ >> c.quant & 1))
      return false;
  }
  const Bytes tail = segment.last(3);  // spectral selection 0..63, no successive approximation
  return tail[0] == 0 && tail[1] == 63 && tail[2] == 0;
}

}  // namespace millrace::codecs
