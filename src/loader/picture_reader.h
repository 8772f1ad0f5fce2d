// PictureReader: a file's picture by the engine's codecs, or, where these refuse it, by the data set's
// fallback decoder.
//
// A fallback decodes whole pictures, and only then knows their size, so it works in open(). If it refuses a
// damaged file, too, the error is the codec's, which knows the offset. One per worker; keeps its buffers
// between pictures. Throws Error without a path.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "codecs/picture_decoder.h"
#include "loader/image_dataset.h"
#include "loader/picture_rules.h"
#include "trace/stage_times.h"
#include "transforms/pixel_buffer.h"

namespace millrace::loader {

class PictureReader {
 public:
  // `fallback` and `times`, which books the decoding, are borrowed and may be null; `name` says what the
  // fallback is to call the file. `upright`: the orientation is used, so the fallback is asked for one that the
  // codecs do not know. `modes`: others are refused, before they are decoded.
  PictureReader(const FallbackDecoder* fallback, std::function<std::string()> name, trace::StageTimes* times,
                bool upright = false, ModeRule modes = ModeRule::any)
      : fallback_(fallback), rules_(dynamic_cast<const PictureRules*>(fallback)), name_(std::move(name)),
        times_(times), upright_(upright), modes_(modes),
        most_quiet_pixels_(rules_ ? rules_->most_quiet_pixels() : codecs::kMaxPixels / 2),
        decoder_(fallback ? codecs::JpegRule::strict : codecs::JpegRule::lenient, most_quiet_pixels_,
                 rules_ ? rules_->png_texts() : codecs::PngTextLimits{}) {}

  // `bytes` stay where they are until the last decode().
  const codecs::PictureHeader& open(std::span<const uint8_t> bytes);

  // A rectangle inside the picture, as RGBX; valid until the next call.
  base::ImageView decode(base::Rect region);

  // What the header says when the file is a JPEG that the engine decodes, else null.
  const codecs::JpegHeader* jpeg() const { return whole_ ? nullptr : decoder_.jpeg(); }

 private:
  void fall_back(const Error& refusal);
  void check_jpeg(const Error& refusal) const;
  void check_mode() const;

  const FallbackDecoder* const fallback_;
  const PictureRules* const rules_;  // the fallback's, or null
  const std::function<std::string()> name_;
  trace::StageTimes* const times_;
  const bool upright_;
  const ModeRule modes_;
  const int64_t most_quiet_pixels_;
  std::span<const uint8_t> bytes_;
  codecs::PictureHeader header_;
  bool whole_ = false;  // pixels_ is the whole picture, by the fallback
  transforms::PixelBuffer pixels_;
  codecs::PictureDecoder decoder_;
};

}  // namespace millrace::loader
