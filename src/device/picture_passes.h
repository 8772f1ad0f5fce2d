// passes_of(): the steps of one picture as passes, in order, with the memory they need. Pure, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/pass.h"
#include "transforms/picture_steps.h"

namespace millrace::device {

using transforms::BlurStep;
using transforms::MapStep;
using transforms::MixStep;
using transforms::MoveStep;
using transforms::PerspectiveStep;
using transforms::PictureStep;
using transforms::RecolorStep;
using transforms::ResizeStep;

// Limits of memory and time: a picture between two steps has at most kMostGrowth times the result's pixels,
// and a picture's steps take at most kMostPasses passes. The CPU makes pictures beyond these limits.
inline constexpr int64_t kMostGrowth = 8, kMostPasses = 256;

struct PicturePasses {
  // Pointers in `pass` are null; `levels`, `weights` and `table` say which of the picture's they mean.
  struct Planned {
    Pass pass;
    int32_t levels = -1;
    int64_t weights = -1, table = -1;
  };
  std::vector<Planned> passes;  // each needs the one before it
  std::vector<float> weights;
  int32_t slots = 1, levels = 0;
  int64_t table_entries = 0;
  uint8_t result = 0;       // slot
  int64_t slot_pixels = 0;  // of the largest picture
  bool sums = false;
};

// The first picture, of size `first`, lies in slot 0.
PicturePasses passes_of(transforms::PictureSize first, std::span<const PictureStep> steps);

// Returns why the steps cannot turn a picture of size `first` into one of size `out` within the limits, as
// the end of a sentence; empty if they can.
std::string why_not_steps(transforms::PictureSize first, std::span<const PictureStep> steps,
                          transforms::PictureSize out);

}  // namespace millrace::device
