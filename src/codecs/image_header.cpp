#include "codecs/image_header.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "codecs/jpeg_segments.h"
#include "codecs/orientation.h"
#include "millrace/error.h"

namespace millrace::codecs {
namespace {

using Bytes = std::span<const uint8_t>;

bool starts_with(Bytes bytes, std::initializer_list<uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

[[noreturn]] void fail(const std::string& message, size_t offset) {
  throw Error(ErrorKind::corrupt_data, message, {}, static_cast<int64_t>(offset));
}

uint32_t big16(Bytes b, size_t at) { return uint32_t{b[at]} << 8 | b[at + 1]; }

// The segments that may say how the picture is to be turned.
struct Metadata {
  Bytes exif, xmp;
  bool several = false;  // EXIFs, which Pillow reads as one

  void take(Bytes segment) {
    constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    if (starts_with(segment, {'E', 'x', 'i', 'f', 0, 0})) {
      several = !exif.empty();
      if (!several) exif = segment;
    } else if (segment.size() >= kXmp.size() && std::equal(kXmp.begin(), kXmp.end(), segment.begin())) {
      xmp = segment.subspan(kXmp.size());
    }
  }

  void tell(JpegHeader& header) const {
    const std::optional<int> known = several ? std::nullopt : picture_orientation(exif, xmp);
    header.orientation_known = known.has_value();
    header.orientation = known ? *known : std::max(exif_orientation(exif.subspan(6)).value, 1);
  }
};

bool is_frame_marker(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

void read_frame(Bytes segment, uint8_t marker, size_t offset, JpegHeader& header) {
  if (segment.size() < 6) fail("JPEG frame header is cut short: the file is damaged", offset);
  header.precision = segment[0];
  header.height = static_cast<int32_t>(big16(segment, 1));
  header.width = static_cast<int32_t>(big16(segment, 3));
  header.components = segment[5];
  header.progressive = (marker & 3) == 2;
  header.arithmetic = marker >= 0xC8;
  if (header.width == 0 || header.height == 0)
    fail("JPEG header gives an empty picture (" + std::to_string(header.width) + " x " +
             std::to_string(header.height) + ")",
         offset);
  refuse_huge("JPEG", header.width, header.height, offset);
  if (header.components != 1 && header.components != 3 && header.components != 4)
    fail("JPEG with " + std::to_string(header.components) +
             " components: only 1 (grey), 3 (colour) and 4 (CMYK) have a meaning as RGB",
         offset);
}

}  // namespace

ImageFormat sniff(Bytes bytes) {
  if (starts_with(bytes, {0xFF, 0xD8, 0xFF})) return ImageFormat::jpeg;
  if (starts_with(bytes, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'})) return ImageFormat::png;
  if (starts_with(bytes, {'G', 'I', 'F', '8'})) return ImageFormat::gif;
  if (starts_with(bytes, {'I', 'I', 42, 0}) || starts_with(bytes, {'M', 'M', 0, 42}))
    return ImageFormat::tiff;
  if (starts_with(bytes, {'R', 'I', 'F', 'F'}) && bytes.size() >= 12 &&
      starts_with(bytes.subspan(8), {'W', 'E', 'B', 'P'}))
    return ImageFormat::webp;
  if (starts_with(bytes, {'B', 'M'})) return ImageFormat::bmp;
  return ImageFormat::unknown;
}

const char* format_name(ImageFormat format) {
  switch (format) {
    case ImageFormat::jpeg: return "JPEG";
    case ImageFormat::png: return "PNG";
    case ImageFormat::gif: return "GIF";
    case ImageFormat::bmp: return "BMP";
    case ImageFormat::tiff: return "TIFF";
    case ImageFormat::webp: return "WebP";
    case ImageFormat::unknown: break;
  }
  return "unknown";
}

void refuse_huge(const char* format, int32_t width, int32_t height, size_t offset) {
  const int64_t pixels = int64_t{width} * height;
  if (pixels > kMaxPixels)
    throw Error(ErrorKind::corrupt_data,
                std::string(format) + " header claims " + std::to_string(width) + " x " +
                    std::to_string(height) + " = " + std::to_string(pixels) + " pixels, above the limit of " +
                    std::to_string(kMaxPixels) +
                    " that guards against decompression bombs; shrink or remove the file",
                {}, static_cast<int64_t>(offset), kTooManyPixels);
}

JpegHeader probe_jpeg(Bytes bytes) {
  if (bytes.empty()) fail("file is empty (0 bytes), not a JPEG", 0);
  if (!starts_with(bytes, {0xFF, 0xD8})) fail("not a JPEG: the first two bytes are not FF D8", 0);
  JpegHeader header;
  Metadata metadata;
  bool have_frame = false;
  const auto odd = [&](const char* what, size_t offset) {
    if (header.oddity || !what) return;
    header.oddity = what;
    header.oddity_offset = offset;
  };
  size_t at = 2;
  // After the frame header only EXIF and XMP are still of interest, so damage there is an oddity and ends the
  // walk.
  while (true) {
    // Stray bytes between segments are skipped, as libjpeg does.
    const size_t behind = at;
    while (at < bytes.size() && bytes[at] != 0xFF) ++at;
    while (at < bytes.size() && bytes[at] == 0xFF) ++at;
    if (at != behind + 1) odd("bytes between its segments", behind);
    if (at >= bytes.size()) break;
    const uint8_t marker = bytes[at++];
    if (marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) {  // no length field
      odd("a marker that does not belong between segments", at - 2);
      continue;
    }
    if (marker == 0xD9 || marker == 0xD8) break;
    if (at + 2 > bytes.size()) break;
    const size_t length = big16(bytes, at);
    if (length < 2 || at + length > bytes.size()) break;
    const Bytes segment = bytes.subspan(at + 2, length - 2);
    odd(is_frame_marker(marker) && have_frame ? "a second frame" : segment_oddity(marker, segment), at - 2);
    if (marker == 0xDA) {
      header.scan_begin = at + length;
      break;
    }
    if (is_frame_marker(marker) && !have_frame) {
      read_frame(segment, marker, at - 2, header);
      have_frame = true;
    } else if (marker == 0xE1) {
      metadata.take(segment);
    }
    at += length;
  }
  if (header.scan_begin == 0) odd("no scan behind its segments", at);
  if (!have_frame)
    fail("JPEG has no readable frame header (" + std::to_string(bytes.size()) +
             " bytes): the file is truncated or damaged",
         at);
  metadata.tell(header);
  return header;
}

void refuse_odd(const JpegHeader& header) {
  if (header.oddity)
    fail(std::string("JPEG has ") + header.oddity + ": the file is damaged, or unusual",
         header.oddity_offset);
}

}  // namespace millrace::codecs
