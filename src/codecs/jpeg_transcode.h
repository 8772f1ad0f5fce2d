// transcode_jpeg: writes the same pixels as a file with parts that can be decoded alone.
//
// Takes the quantised coefficients out of any 8-bit JPEG (progressive and arithmetic ones too) and writes
// them as one baseline scan with a restart marker after every few MCUs. A marker begins the stream anew, so a
// decoder that wants a rectangle jumps over what lies beside it; the markers are the index of the segments
// (codecs/entropy_data.h). All APPn and COM segments (JFIF, EXIF, ICC profile, Adobe) are kept byte for byte,
// in their order; bytes past the end marker are dropped.
//
// Cost: about two decodes, and two bytes of memory per coefficient. Deterministic. Any thread; keeps nothing.
// Throws Error(corrupt_data) when the file is damaged, even where decoders patch it up: what they show then
// is not in the coefficients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::codecs {

struct TranscodeOptions {
  // Pixels from one marker to the next, rounded down to whole MCUs, at least one; 0: no markers. A random
  // crop needs about half a segment more than its own width in each row of MCUs. 64 is where shorter ones no
  // longer save time, and costs 0.9 % of bytes.
  int32_t segment_pixels = 64;
  // Huffman tables made for this picture: 3.5 % fewer bytes, but a decoder has to build them, which costs a
  // tenth of decoding a 500-pixel photo. The standard's tables, which most files have, are built once.
  bool own_tables = false;
};

std::vector<uint8_t> transcode_jpeg(std::span<const uint8_t> bytes, const TranscodeOptions& options = {});

}  // namespace millrace::codecs
