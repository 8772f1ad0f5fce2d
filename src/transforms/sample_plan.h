// SamplePlan: the geometry of one sample as a short list of stages, built backwards from the tensor so that
// only pixels that the tensor shows are computed.
//
// Between two resizes every transform (flip, crop, padding, nearest resize, upright turn) only says where a
// pixel comes from. So one list of columns and one list of rows, pulled back through the chain, describe all
// of them, and a stage is one resize followed by such lists. Flips and crops thus cost nothing: they are in
// the taps. The plan leaves out a stage that only copies, unless it is the only one or moves pixels in a way
// that taps cannot express (padding or a diagonal turn before a resize). Buffers are reused from sample to
// sample; one owner, one thread. Cost: a few microseconds for usual sizes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/chain.h"
#include "transforms/index_list.h"
#include "transforms/ops/pixel_ops.h"
#include "transforms/picture_steps.h"
#include "transforms/placed_steps.h"
#include "transforms/resample_taps.h"

namespace millrace::transforms {

struct AxisPlan {
  IndexList from;  // one entry per output; resized: index of the resize's output, else of the stage's input;
                   // negative: a pixel of a padding, of colour -1 - entry
  bool resized = false;
  Taps taps;              // resized only; relative to the stage's input
  bool straight = false;  // not resized, and output i is input i
};

// A change of finished pixels: an operation that is no map (grey is saturation 0), a table, or a mix.
struct ColorStep {
  AugmentKind kind = AugmentKind::identity;
  double value = 0;                // as AugmentStep's
  const uint8_t* table = nullptr;  // 256 bytes for each channel, the steps'
  const MixStep* mix = nullptr;    // the steps'

  // Every pixel has to be there first.
  bool needs_picture() const { return mix != nullptr || (table == nullptr && !PixelOps::has(kind)); }
};

// Output pixels are looked up at `inverse` of their positions; the input is the window `in` of a picture of
// size `picture`.
struct AffineMap {
  Homography inverse;
  bool divides;  // false: the last two are 0
  Interpolation interpolation;
  PictureSize picture;
  int32_t left, top;  // of the window
  std::array<uint8_t, 3> fill;
};

// A weighted mean of the input's pixels to the right of and below each place: the input carries the border.
// First down, then along.
struct BlurKernels {
  std::vector<float> x, y;
};

struct Stage {
  enum class Kind : uint8_t { resample, affine, blur };
  Kind kind;
  AxisPlan x, y;  // affine: `from` are positions in the mapped picture; blur: in the blurred window
  int32_t in_width = 0, in_height = 0;  // of the stage's input; `transposed`: before the turn
  bool transposed = false;              // a copy; its x counts the input's rows
  bool vertical_first = false;          // both axes resized: which pass makes the 8-bit rows in between
  bool has_fill = false;
  AffineMap affine;               // kind affine only
  BlurKernels blur;               // kind blur only
  std::vector<ColorStep> colors;  // done to the finished pixels, in this order
};

struct SamplePlan {
  base::Rect region;  // of the stored picture
  PictureSize out;
  std::vector<Stage>
      stages;  // the first `stage_count` are this sample's, the last one comes first in the list
  size_t stage_count = 0;
  std::vector<std::array<uint8_t, 3>> colours;  // of fill pixels, by step
  PictureSteps steps;                           // of a chain
  std::vector<PictureSize> sizes;               // before each step, and after the last
  NumberSteps numbers;                          // of a chain

  const Stage& stage(size_t i) const { return stages[stage_count - 1 - i]; }  // in the order of running
};

// Throws Error(invalid_argument) when `params` do not belong to this chain and picture.
void make_sample_plan(const Chain& chain, PictureSize stored, const SampleParams& params, SamplePlan& plan);
// The same for a list of steps, which must live as long as the plan is used.
void make_sample_plan(std::span<const PictureStep> steps, PictureSize stored, SamplePlan& plan);

}  // namespace millrace::transforms
