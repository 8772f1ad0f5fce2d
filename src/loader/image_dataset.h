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

// Which pictures there may be: all, converted to RGB; or those alone whose mode is RGB, or that or grey, as
// they are stored. Of others the error has the kind `unavailable`, and no fallback is asked: who wants the
// modes of files knows what to do with them.
enum class ModeRule : uint8_t { any, rgb, grey_or_rgb };

struct ImageDataset {
  std::shared_ptr<const sources::SampleFiles> files;
  std::vector<int64_t> labels;  // as many as files, or none: then labels are somebody else's business, and 0
  // What is made of a picture: one view, or several, of fixed shapes and one type, each by a chain of its
  // own. The picture is read and decoded once.
  std::vector<std::shared_ptr<const transforms::ImagePipeline>> views;
  // Whether the views, of one shape, are one array (views, channels, height, width) of a batch's rows, and no
  // blocks of their own.
  bool stacked = false;
  // In place of that: a batch has one of the `views` for all of its rows, and draws for it what it would draw
  // were it the only one. Their shapes may differ.
  bool forms = false;
  // Whether each row of a batch has the shapes that its own picture gives it (Batch::ragged).
  bool ragged = false;
  ModeRule modes = ModeRule::any;
  std::shared_ptr<const FallbackDecoder> fallback;  // null: the codecs' refusals stand

  const transforms::ImagePipeline& pipeline() const { return *views.front(); }
  // Of rows that are one view of one shape; null where they cannot be mixed.
  const transforms::RowMixer* mixer() const {
    return views.size() == 1 && !stacked && !ragged ? pipeline().mixer() : nullptr;
  }

  // What is made of the pictures of a batch of this form; all views where there are no forms.
  std::span<const std::shared_ptr<const transforms::ImagePipeline>> made_for(size_t form) const;

  // The shapes of several views, or of those that are stacked; empty: there is one, or forms, or they are
  // ragged. Throws Error(invalid_argument) when these are not fixed, or the types differ, of forms too, or shapes that are
  // stacked.
  std::vector<transforms::OutputShape> shapes() const;
  // The same, of views that have blocks of their own.
  std::vector<transforms::OutputShape> parts() const;
};

}  // namespace millrace::loader
