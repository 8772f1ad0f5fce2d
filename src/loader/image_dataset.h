// ImageDataset: everything a worker needs to make a row: where its bytes are, their labels, and the
// transforms.
//
// Immutable while a loader runs; shared by the loader and by `ds.at()` (the reason for shared_ptr: both
// outlive each other).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sources/sample_files.h"
#include "transforms/image_pipeline.h"
#include "transforms/pixel_buffer.h"

namespace millrace::loader {

// Decodes what the native codecs do not know. The Python binding's takes the GIL and asks Pillow; C++ users
// may bring their own.
class FallbackDecoder {
 public:
  virtual ~FallbackDecoder() = default;
  // The whole picture as RGBX, EXIF not applied. Throws Error(corrupt_data). Called from several threads.
  virtual void decode(std::span<const uint8_t> bytes, const std::string& path, transforms::PixelBuffer& out,
                      int* orientation) const = 0;
};

// Which pictures there may be: all, converted to RGB; or only those stored as RGB, or as RGB or grey, in the
// mode in which they are stored. For others the error has the kind `unavailable`, and no fallback is asked: a
// caller that wants the modes of files handles these itself.
enum class ModeRule : uint8_t { any, rgb, grey_or_rgb };

struct ImageDataset {
  std::shared_ptr<const sources::SampleFiles> files;
  std::vector<int64_t> labels;  // as many as files, or none: then labels are somebody else's business, and 0
  // The views made of a picture: one, or several of fixed shapes and one type, each by a chain of its own.
  // The picture is read and decoded once.
  std::vector<std::shared_ptr<const transforms::ImagePipeline>> views;
  // Whether the views, all of one shape, are one array (views, channels, height, width) per row of a batch,
  // not a block each.
  bool stacked = false;
  // Alternative to several views: a batch has one of the `views` for all of its rows, with the same draws as
  // if that view were the only one. The views' shapes may differ.
  bool forms = false;
  // Whether each row of a batch has the shapes that its own picture gives it (Batch::ragged).
  bool ragged = false;
  ModeRule modes = ModeRule::any;
  std::shared_ptr<const FallbackDecoder> fallback;  // null: pictures that the codecs refuse are errors

  const transforms::ImagePipeline& pipeline() const { return *views.front(); }
  // Of rows that are one view of one shape; null where they cannot be mixed.
  const transforms::RowMixer* mixer() const {
    return views.size() == 1 && !stacked && !ragged ? pipeline().mixer() : nullptr;
  }

  // The views that a batch of this form has; all views where there are no forms.
  std::span<const std::shared_ptr<const transforms::ImagePipeline>> made_for(size_t form) const;

  // The shapes of several views, or of those that are stacked; empty: there is one, or forms, or they are
  // ragged. Throws Error(invalid_argument) if one of these shapes is not fixed, if the types differ, of forms
  // too, or if the shapes of stacked views differ.
  std::vector<transforms::OutputShape> shapes() const;
  // The same, of views that have blocks of their own.
  std::vector<transforms::OutputShape> parts() const;
};

}  // namespace millrace::loader
