// ImagePipeline: a checked chain of transforms, run on one picture at a time with only the pixels that are
// needed.
//
// Three steps, so that the caller can decode between them:
//   draw   key + picture size -> every random decision, as plain structs (params.h)
//   plan   decisions -> which rectangle of the stored picture is needed, and the output's size
//   apply  that rectangle -> CHW tensor row, written in place
// Pixels equal Pillow 13's to the bit (fixed-point resampling, 8-bit between the passes, Pillow's order of
// passes, its arithmetic of colours and affine maps), except for GaussianBlur: it adds torch's products in
// another order, so about one value in 10,000, which lies between two levels, is rounded to the other one.
// Values equal torch's to the bit.
// Immutable after create(); any number of threads, each with its own Scratch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/geometry.h"
#include "base/sample_key.h"
#include "millrace/transform_spec.h"
#include "transforms/params.h"
#include "transforms/row_mix.h"

namespace millrace::transforms {

struct Chain;  // chain.h

inline constexpr uint32_t kMostViews = 1u << 16;

struct OutputShape {
  int32_t channels = 3, height = 0, width = 0;
  int64_t elements() const { return int64_t{channels} * height * width; }
  bool operator==(const OutputShape&) const = default;
};

class ImagePipeline {
 public:
  // Throws Error(invalid_argument) naming the transform, the rule and the remedy (e.g. Normalize before
  // ToTensor; no ToTensor).
  static std::unique_ptr<ImagePipeline> create(std::vector<TransformSpec> chain);
  virtual ~ImagePipeline() = default;

  virtual base::DType output_type() const = 0;
  // The output's size when it is the same for every picture.
  virtual std::optional<OutputShape> fixed_shape() const = 0;
  virtual bool needs_orientation() const = 0;  // the chain starts with ExifTranspose
  virtual const Chain& chain() const = 0;      // for code that runs the same decisions elsewhere

  // `width`, `height`: as stored. `orientation`: 1..8, looked at only when needs_orientation(). `view`: which
  // of several views of one picture, up to kMostViews; each view draws its own numbers.
  virtual SampleParams draw(int32_t width, int32_t height, int orientation, const base::SampleKey& key,
                            uint32_t view = 0) const = 0;

  struct Plan;     // opaque: the geometry of one sample
  struct Scratch;  // opaque: intermediate rows, reused from sample to sample; one per thread
  static std::unique_ptr<Scratch, void (*)(Scratch*)> make_scratch();

  // The pixels to decode, and the output's shape. The plan lives in `scratch` until the next call to plan().
  struct Need {
    base::Rect region;  // of the stored picture; never empty
    OutputShape shape;
  };
  virtual Need plan(int32_t width, int32_t height, const SampleParams& params, Scratch& scratch) const = 0;

  // `region_pixels` holds Need::region. Writes shape.channels x height x width elements of output_type() to
  // `out`, dense CHW. `out` need not be aligned beyond its element.
  virtual void apply(base::ImageView region_pixels, Scratch& scratch, void* out) const = 0;

  // As apply(), but with the three values of a pixel side by side: dense HWC. One channel gives the same as
  // apply(). Throws Error(invalid_argument) for chains that add noise or erase, because these write planes.
  virtual void apply_interleaved(base::ImageView region_pixels, Scratch& scratch, void* out) const = 0;

  // The mixer that makes one row from two half-done rows (row_mix.h). Null if these rows cannot be mixed:
  // they have no fixed shape, are not f32, or do not have three channels.
  virtual const RowMixer* mixer() const = 0;
  // As apply(), but makes a half-done row for mixer(): its pixels into out.pixels, and out.numbers.
  virtual void apply_unmixed(base::ImageView region_pixels, Scratch& scratch, HalfRow& out) const = 0;
};

}  // namespace millrace::transforms
