// PictureRules: a fallback decoder's rules for pictures that the engine's codecs decode themselves. The
// engine asks a FallbackDecoder that also is a PictureRules.
//
// Called from several threads; throws Error(corrupt_data).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codecs/png_file.h"

namespace millrace::loader {

class PictureRules {
 public:
  virtual ~PictureRules() = default;
  // A JPEG of more pixels than this goes through check_size(), which may warn, or throw with kTooManyPixels.
  // Pictures of other formats that are larger, and JPEGs of more than kMaxPixels, are the fallback's.
  virtual int64_t most_quiet_pixels() const = 0;
  // PNGs with more text, or a longer profile, are the fallback's.
  virtual codecs::PngTextLimits png_texts() const { return {}; }
  virtual void check_size(int32_t width, int32_t height, const std::string& path) const = 0;
  // Whether a JPEG with a header that the codecs refuse is a picture at all.
  virtual bool identifies(std::span<const uint8_t> bytes) const = 0;
};

}  // namespace millrace::loader
