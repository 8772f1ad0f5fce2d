// orientation: how a file's metadata says that its picture is to be turned, 1..8 as EXIF counts.
//
// Reads only the bytes given and never throws: damaged metadata is common in the wild and must not stop a
// decode. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace millrace::codecs {

struct ExifOrientation {
  int value = 0;        // 1..8; 0: none that has a meaning
  bool tagged = false;  // there is a tag, whatever it says
  bool regular = true;  // false: damaged or unusual, so that readers may differ
};

// The orientation in IFD0 of a TIFF structure, without the "Exif\0\0" that some formats put in front.
ExifOrientation exif_orientation(std::span<const uint8_t> tiff);

// What Pillow's getexif() says of a picture's two kinds of metadata (either may be empty): EXIF, with or
// without its prefix, and where that has no orientation, XMP. 1 when there is none; nothing when Pillow
// itself has to be asked.
std::optional<int> picture_orientation(std::span<const uint8_t> exif, std::span<const uint8_t> xmp);

}  // namespace millrace::codecs
