// Pass: a step of a picture, or a part of one, as kernels see it: reads a picture and writes another one.
//
// A launch takes a list of passes of different pictures. The list lies on the device (UploadKernel), and so
// do the pictures (RGBX). The slots of a sample are the pictures that it needs at a time. passes_of()
// (picture_passes.h) makes the passes.
#pragma once

#include <cstdint>

#include "device/axis_weights.h"
#include "device/batch_images.h"
#include "device/batch_kernels.h"
#include "transforms/affine_scalar.h"
#include "transforms/box_blur_kernel.h"
#include "transforms/ops/pixel_ops.h"
#include "millrace/transform_spec.h"

namespace millrace::device {

enum class PassKind : uint8_t {
  // PixelKernel
  move,
  scale,    // Pillow's nearest-neighbour lookup along the axes
  nearest,  // any other map to nearest pixels
  nearest_perspective,
  recolor,
  sharpen,
  add_share,   // to sums, which are no picture
  blend_sums,  // sums into `other`
  blend,       // into `other`
  // MapKernel
  bilinear,
  bicubic,
  bilinear_perspective,
  bicubic_perspective,
  // ResizeKernel
  resize_weights,  // into the table
  resize_across,
  resize_down,
  // BlurKernel
  box_across,
  box_down,
  weigh_down,  // to sums
  weigh_across,
  // CountKernel
  count_grey,
  count_channels,
  // TableKernel
  contrast_table,
  autocontrast_table,
  equalize_table,
  store,  // StoreKernel
};

// A change of each pixel alone: one of PixelOps, or the table of `levels`.
struct Change {
  AugmentKind kind = AugmentKind::identity;
  bool looks_up = false;
  transforms::PixelAmount amount{};

  MILLRACE_BOTH bool is_none() const { return kind == AugmentKind::identity && !looks_up; }
};
inline constexpr int kMostChanges = 4;

// How often each byte occurs (of the grey picture: in the first 256), and the table made of it.
struct Levels {
  uint32_t counts[3 * 256];
  uint8_t table[3 * 256];
};

struct Pass {
  PassKind kind = PassKind::recolor;
  uint8_t from = 0, to = 0, other = 0;  // slots
  bool first = false;                   // add_share: there are no sums yet
  int32_t sample = 0;                   // of the batch
  uint32_t fill = 0;                    // RGBX
  int32_t in_width = 0, in_height = 0, width = 0, height = 0;
  uint32_t* pictures = nullptr;  // the sample's slots
  int64_t slot_pixels = 0;
  float* sums = nullptr;  // three for each pixel
  Levels* levels = nullptr;
  const float* weights = nullptr;
  int32_t* table = nullptr;  // of a resize's weights (axis_weights.h)
  struct Move {
    int32_t left, top;  // of the output before flips
    bool flip_x, flip_y;
    PaddingMode mode;
  };
  struct Scale {
    double first_x, step_x, first_y, step_y;
  };
  union {
    double inverse[8];  // six, but for a perspective
    Move move;
    Scale scale;
    transforms::NearestMap nearest;
    Change changes[kMostChanges];
    transforms::Box box;
    AxisResize axis;
    int32_t taps;
    float factor;
  };

  Pass() : inverse{} {}
  MILLRACE_BOTH uint32_t* slot(uint8_t i) const { return pictures + i * slot_pixels; }
  MILLRACE_BOTH int64_t pixels() const { return int64_t{width} * height; }
  MILLRACE_BOTH int64_t groups() const {
    const auto parts = [](int64_t n) { return (n + kGroupPixels - 1) / kGroupPixels; };
    switch (kind) {
      case PassKind::box_across: return parts(width) * height;
      case PassKind::box_down: return parts(height) * width;
      case PassKind::contrast_table:
      case PassKind::autocontrast_table:
      case PassKind::equalize_table: return 3;
      case PassKind::resize_weights: return axis.outputs;
      default: return parts(pixels());
    }
  }
};

MILLRACE_BOTH inline Rgb8 unpacked(uint32_t word) {
  return {static_cast<int32_t>(word & 0xFF), static_cast<int32_t>(word >> 8 & 0xFF),
          static_cast<int32_t>(word >> 16 & 0xFF)};
}
MILLRACE_BOTH inline uint32_t packed(Rgb8 p) { return static_cast<uint32_t>(p.r | p.g << 8 | p.b << 16); }

// A run of passes on the device, one of each sample.
struct PassKernel {
  const Pass* passes;
  SampleRange samples;
  int64_t most_groups;

  MILLRACE_BOTH int64_t groups() const { return most_groups; }
  // `make(place, x, y)` for the pixels of a group.
  template <class Make>
  MILLRACE_BOTH static void for_pixels(const Pass& p, int64_t group, Make&& make) {
    const int64_t begin = group * kGroupPixels, end = begin + kGroupPixels;
    int32_t y = static_cast<int32_t>(begin / p.width), x = static_cast<int32_t>(begin - int64_t{y} * p.width);
    for (int64_t i = begin; i < end && i < p.pixels(); ++i) {
      make(i, x, y);
      if (++x == p.width) x = 0, ++y;
    }
  }
};

}  // namespace millrace::device
