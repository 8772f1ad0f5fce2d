// probe_image: returns a file's format and the size of its picture, from its first bytes and without
// decoding.
//
// Reads only the bytes given; never throws for damage past the header. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::codecs {

enum class ImageFormat : uint8_t { unknown, jpeg, png, gif, bmp, tiff, webp };

// By magic numbers, as file(1) does; needs at most 12 bytes.
ImageFormat sniff(std::span<const uint8_t> bytes);
const char* format_name(ImageFormat format);

// Pillow's limit above which it refuses an image as a decompression bomb (2 x Image.MAX_IMAGE_PIXELS).
inline constexpr int64_t kMaxPixels = 178'956'970;

// What Pillow has exception types of its own for: the code() of an Error(corrupt_data) about a picture.
enum PictureFault : int { kDamaged = 0, kNotIdentified = 1, kTooManyPixels = 2 };

// Throws Error(corrupt_data, kTooManyPixels) at `offset` when a header of `format` claims more than
// kMaxPixels.
void refuse_huge(const char* format, int32_t width, int32_t height, size_t offset);

// Above this a progressive JPEG is a bomb: any number of tiny scans, each a pass over all coefficients, is
// minutes of work from a few kilobytes.
inline constexpr int kMaxJpegScans = 500;

struct JpegHeader {
  int32_t width = 0, height = 0;  // as stored, before EXIF orientation
  int components = 0;
  bool progressive = false, arithmetic = false;
  int precision = 8;
  int orientation = 1;  // EXIF 1..8; 1 when absent or damaged
  // false: EXIF that readers may take differently (orientation.h), so that `orientation` is a guess
  bool orientation_known = true;
  size_t scan_begin = 0;  // first byte of entropy-coded data; 0: the segments end without a scan

  // What about the segments down to the first scan is such that decoders may differ about the file
  // (jpeg_segments.h), and where it is; null: nothing.
  const char* oddity = nullptr;
  size_t oddity_offset = 0;
};

// Throws Error(corrupt_data) when the bytes are no JPEG, the header is broken, or width x height passes
// kMaxPixels.
JpegHeader probe_jpeg(std::span<const uint8_t> bytes);

// Throws Error(corrupt_data) when there is an oddity.
void refuse_odd(const JpegHeader& header);

}  // namespace millrace::codecs
