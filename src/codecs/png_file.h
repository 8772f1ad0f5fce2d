// PngFile: where everything lies in a PNG, from one walk over its chunks.
//
// A file is either regular (each chunk complete, its checksum right, all in an order that decoders agree on,
// down to IEND) and described here, or an Error(corrupt_data) says at which offset it is not. Pillow is
// lenient about some of these, so callers that have Pillow ask it about a refused file. Error(unavailable):
// nothing is wrong, but Pillow alone has the answer, as of texts and colour profiles that may be beyond its
// limits. Costs one checksum over the file, some 10 GB/s, and inflates profiles and texts of more than a
// kilobyte. Any thread.
#pragma once

#include <cstdint>
#include <span>

namespace millrace::codecs {

enum class PngColor : uint8_t { grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgb_alpha = 6 };

struct PngFile {
  int32_t width = 0, height = 0;  // as stored, before orientation
  int depth = 0;                  // bits per channel
  PngColor color = PngColor::grey;
  bool interlaced = false;
  int orientation = 1;               // EXIF 1..8, from eXIf or XMP as Pillow's getexif() finds it
  std::span<const uint8_t> palette;  // red, green, blue of each entry

  // The compressed pixels: the data of the IDAT chunks, which follow each other without others in between.
  size_t data_offset = 0;  // of the first one's length field
  size_t data_bytes = 0;   // of all together

  int channels() const;
  int pixel_bits() const { return depth * channels(); }
};

// What Pillow allows, in bytes: of each compressed text or colour profile once inflated (0: compressed ones
// are all its own), and of all texts together. By default what it ships with.
struct PngTextLimits {
  int64_t chunk = int64_t{1} << 20, all = int64_t{64} << 20;
};

PngFile probe_png(std::span<const uint8_t> bytes, const PngTextLimits& limits = {});

// Calls take(data) for each IDAT chunk of `bytes`, for which probe_png() gave `file`.
template <typename Take>
void for_each_data_chunk(std::span<const uint8_t> bytes, const PngFile& file, Take take) {
  size_t left = file.data_bytes;
  for (size_t at = file.data_offset; left > 0;) {
    const size_t length =
        size_t{bytes[at]} << 24 | size_t{bytes[at + 1]} << 16 | size_t{bytes[at + 2]} << 8 | bytes[at + 3];
    take(bytes.subspan(at + 8, length));
    left -= length;
    at += length + 12;
  }
}

}  // namespace millrace::codecs
