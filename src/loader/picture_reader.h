// PictureReader: a file's picture by the engine's codecs, or, where these refuse it, by the data set's fallback decoder.
//
// A fallback decodes whole pictures, and only then knows their size, so it works in open(). If it refuses a damaged file, too, the error
// is the codec's, which knows the offset. One per worker; keeps its buffers between pictures. Throws Error without a path.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>

#include "codecs/picture_decoder.h"
#include "loader/image_dataset.h"
#include "trace/stage_times.h"
#include "transforms/pixel_buffer.h"

namespace millrace {

class PictureReader {
 public:
  // `fallback` and `times`, which books the decoding, are borrowed and may be null; `name` says what the fallback is to call the file.
  PictureReader(const FallbackDecoder* fallback, std::function<std::string()> name, StageTimes* times)
      : fallback_(fallback), name_(std::move(name)), times_(times) {}

  // `bytes` stay where they are until the last decode().
  const PictureHeader& open(std::span<const uint8_t> bytes);

  // A rectangle inside the picture, as RGBX; valid until the next call.
  ImageView decode(Rect region);

  // What the header says when the file is a JPEG that the engine decodes, else null.
  const JpegHeader* jpeg() const { return whole_ ? nullptr : decoder_.jpeg(); }

 private:
  void fall_back(const Error& refusal);

  const FallbackDecoder* const fallback_;
  const std::function<std::string()> name_;
  StageTimes* const times_;
  std::span<const uint8_t> bytes_;
  PictureHeader header_;
  bool whole_ = false;  // pixels_ is the whole picture, by the fallback
  PixelBuffer pixels_;
  PictureDecoder decoder_;
};

}  // namespace millrace
