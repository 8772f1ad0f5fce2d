#include "codecs/orientation.h"

#include <algorithm>
#include <string_view>

namespace millrace::codecs {
namespace {

using Bytes = std::span<const uint8_t>;

// One TIFF structure; its two header letters choose the byte order.
struct Tiff {
  Bytes bytes;
  bool little = false;
  uint32_t u16(size_t at) const {
    const uint32_t first = bytes[at], second = bytes[at + 1];
    return little ? first | second << 8 : first << 8 | second;
  }
  uint32_t u32(size_t at) const { return little ? u16(at) | u16(at + 2) << 16 : u16(at) << 16 | u16(at + 2); }
  // A whole number in an entry's last four bytes; nothing of types that Pillow has other values of.
  std::optional<uint32_t> number(uint32_t type, size_t at) const {
    constexpr uint32_t kShort = 3, kLong = 4, kSignedByte = 6, kSignedShort = 8, kSignedLong = 9;
    if (type == kShort || type == kSignedShort) return u16(at);
    if (type == kLong || type == kSignedLong) return u32(at);
    if (type == kSignedByte) return bytes[at];
    return std::nullopt;
  }
  // Whether an entry's values lie in the file. Pillow reads nothing past an entry with values outside the
  // file.
  bool holds_values(size_t entry) const {
    constexpr uint8_t kBytes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};  // of each type
    const uint32_t type = u16(entry + 2);
    const uint64_t size = type < std::size(kBytes) ? uint64_t{kBytes[type]} * u32(entry + 4) : 0;
    return size <= 4 || u32(entry + 8) + size <= bytes.size();
  }
};

void drop_prefix(Bytes& bytes) {
  constexpr uint8_t kPrefix[] = {'E', 'x', 'i', 'f', 0, 0};
  if (bytes.size() >= std::size(kPrefix) && std::equal(std::begin(kPrefix), std::end(kPrefix), bytes.begin()))
    bytes = bytes.subspan(std::size(kPrefix));
}

// The digit after the first `tiff:Orientation="` or `tiff:Orientation>`; -1 without one.
int xmp_orientation(Bytes packet) {
  constexpr std::string_view kName = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(packet.data()), packet.size());
  for (size_t at = text.find(kName); at != text.npos; at = text.find(kName, at + 1)) {
    std::string_view value = text.substr(at + kName.size());
    if (value.starts_with("=\""))
      value.remove_prefix(2);
    else if (value.starts_with(">"))
      value.remove_prefix(1);
    else
      continue;
    if (!value.empty() && value[0] >= '0' && value[0] <= '9') return value[0] - '0';
  }
  return -1;
}

}  // namespace

ExifOrientation exif_orientation(Bytes bytes) {
  constexpr uint32_t kOrientationTag = 0x0112;
  constexpr ExifOrientation kDamaged{0, false, false};
  Tiff tiff{bytes};
  if (bytes.size() < 8) return kDamaged;
  tiff.little = bytes[0] == 'I' && bytes[1] == 'I';
  if (!tiff.little && !(bytes[0] == 'M' && bytes[1] == 'M')) return kDamaged;
  const size_t ifd = tiff.u32(4);
  if (tiff.u16(2) != 42 || ifd + 2 > bytes.size()) return kDamaged;
  const uint32_t entries = tiff.u16(ifd);
  ExifOrientation found;
  found.regular = ifd >= 8 && ifd + 2 + size_t{12} * entries <= bytes.size();
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t at = ifd + 2 + size_t{12} * i;
    if (at + 12 > bytes.size()) break;
    if (!found.tagged && !tiff.holds_values(at)) found.regular = false;
    if (tiff.u16(at) != kOrientationTag) continue;
    if (found.tagged) {  // the first counts here, the last elsewhere
      found.regular = false;
      break;
    }
    const std::optional<uint32_t> value = tiff.number(tiff.u16(at + 2), at + 8);
    found.tagged = true;
    if (!value || tiff.u32(at + 4) != 1) found.regular = false;
    if (value && *value >= 1 && *value <= 8) found.value = static_cast<int>(*value);
  }
  return found;
}

std::optional<int> picture_orientation(Bytes exif, Bytes xmp) {
  drop_prefix(exif);
  if (!exif.empty()) {
    const ExifOrientation found = exif_orientation(exif);
    if (!found.regular) return std::nullopt;
    if (found.tagged) return std::max(found.value, 1);
  }
  const int value = xmp_orientation(xmp);
  return value >= 1 && value <= 8 ? value : 1;
}

}  // namespace millrace::codecs
