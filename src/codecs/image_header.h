// probe_image: what a file is and how large its picture is, from its first bytes and without decoding.
//
// Reads only the bytes given; never throws for damage behind the header. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace {

enum class ImageFormat : uint8_t { unknown, jpeg, png, gif, bmp, tiff, webp };

// By magic numbers, as file(1) does; needs at most 12 bytes.
ImageFormat sniff(std::span<const uint8_t> bytes);
const char* format_name(ImageFormat format);

// Pillow's limit above which it refuses an image as a decompression bomb (2 x Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxPixels = 178'956'970;

// Throws Error(corrupt_data) at `offset` when a header of `format` claims more than kMaxPixels.
void refuse_huge(const char* format, int32_t width, int32_t height, size_t offset);

struct JpegHeader {
  int32_t width = 0, height = 0;  // as stored, before EXIF orientation
  int components = 0;
  bool progressive = false, arithmetic = false;
  int precision = 8;
  int orientation = 1;            // EXIF 1..8; 1 when absent or damaged
};

// Throws Error(corrupt_data) when the bytes are no JPEG, the header is broken, or width x height passes kMaxPixels.
JpegHeader probe_jpeg(std::span<const uint8_t> bytes);

}  // namespace millrace
