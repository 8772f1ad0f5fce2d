// fused_augment: makes a normalised batch of decoded pictures of any sizes. It does crop, antialiased resize,
// flips, colour jitter, grey, cast and normalise without a picture in between in memory (except one of the
// output's size where contrast needs the mean). Or it does crop, resize and flips, then any steps
// (transforms/picture_steps.h); each step reads a picture in memory and writes one. Noise and erased
// rectangles come last, in the batch.
//
// Pixels equal the CPU transforms' (src/transforms, which are Pillow's), values to the last bits of f32.
// Any thread; on a CUDA device all work is enqueued on the stream. Throws Error(invalid_argument) naming the
// picture and the rule, Error(unavailable) when the device cannot be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/geometry.h"
#include "device/batch_images.h"
#include "device/finished_numbers.h"
#include "device/kernel_launch.h"
#include "millrace/transform_spec.h"
#include "transforms/params.h"
#include "transforms/picture_steps.h"

namespace millrace::device {

// A borrowed picture in the place's memory: interleaved RGB (3 bytes a pixel) or RGBX (4).
struct DecodedPicture {
  const uint8_t* pixels = nullptr;
  int32_t width = 0, height = 0, pitch_bytes = 0, pixel_bytes = 3;
};

struct Augmentation {
  base::Rect crop;                                        // of the picture
  int32_t width = 0, height = 0;                          // what the crop is resized to
  Interpolation interpolation = Interpolation::bilinear;  // or another filter
  bool of_tensor = false;     // rounded as torch's resize of tensors; else as Pillow's
  int32_t left = 0, top = 0;  // of the output in the resized picture; what lies outside is black
  bool flip_horizontal = false, flip_vertical = false, grayscale = false;
  bool flip_input_x = false, flip_input_y = false;  // flips that come before the resize
  transforms::ColorJitterParams jitter{};
  // Rows and columns are swapped at the end: all fields above are along the axes of the stored picture.
  bool transposed = false;
  // The steps after crop, resize and flips. If there are any, the colours are steps, too, and the first step
  // gets a picture of size `first`.
  transforms::PictureSteps steps{};
  transforms::PictureSize first{};
  FinishedNumbers numbers{};  // for batches of floats; noise: f32 only
};

// Returns the bytes of memory, aligned to 16, that fused_augment() needs at the place; the caller may free
// the memory when the stream has done the work. 114 pictures share it at a time, so more pictures need no
// more. With steps, a picture takes up to 28 bytes for each pixel of the largest picture between two steps
// (8 without blurs and AugMix), and 4 bytes for each weight of a resize among the steps.
// Throws as fused_augment() does.
size_t fused_workspace_bytes(std::span<const Augmentation> augmentations, int32_t height, int32_t width);

// out: (n, 3, h, w), either layout. uint8: values 0..255, no mean and std; floats: (v / 255 - mean) / std, or
// v / 255 without them.
void fused_augment(std::span<const DecodedPicture> pictures, std::span<const Augmentation> augmentations,
                   std::span<const double> mean, std::span<const double> std, const BatchImages& out,
                   void* workspace, const Place& place);

}  // namespace millrace::device
