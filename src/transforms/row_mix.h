// RowMixer: rows of a batch that are mixed with each other: MixUp (Zhang et al., ICLR 2018) and CutMix (Yun
// et al., ICCV 2019).
//
// A mixed row is made from two half-done rows: their pixels before they become numbers, in a quarter of the
// memory. Values equal those of torch's operations on finished rows, to the bit. Immutable, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/geometry.h"
#include "transforms/placed_steps.h"
#include "transforms/picture_size.h"

namespace millrace::transforms {

struct ValueTable;

struct RowMix {
  // own * `own` + other * `other`, each operation rounded to f32; or, with a box, the other's pixels inside
  // it and its own elsewhere.
  float own = 1, other = 0;
  std::optional<base::Rect> box{};
};

struct HalfRow {
  uint8_t* pixels;      // RowMixer::bytes() of them, aligned to 64
  NumberSteps numbers;  // the steps on its numbers
};

class RowMixer {
 public:
  // Of f32 rows of three channels. `table` outlives it.
  RowMixer(PictureSize size, const ValueTable& table) : size_(size), table_(table) {}

  size_t bytes() const;  // of a half row's pixels
  base::ImageView view(uint8_t* pixels) const;
  PictureSize size() const { return size_; }
  void mix(const HalfRow& own, const HalfRow& other, const RowMix& mix, float* out) const;

  struct Lines {
    int32_t begin = 0, end = 0;
  };

 private:
  void mix_pixels(const HalfRow& own, const HalfRow& other, const RowMix& mix, float* out) const;
  void mix_numbers(const float* other, Lines lines, const RowMix& mix, float* out) const;
  void finish(const HalfRow& row, Lines lines, float* out) const;

  PictureSize size_;
  const ValueTable& table_;
};

}  // namespace millrace::transforms
