// RowMixer: rows of a batch that are mixed with each other: MixUp (Zhang et al., ICLR 2018) and CutMix (Yun
// et al., ICCV 2019).
//
// A mixed row is made from two rows that are half done: pixels of bytes, as they are before they become
// numbers, which are a third of the memory; or, where RandomErasing changes the numbers, finished rows.
// Values equal those of torch's operations on finished rows, to the bit. Immutable, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/geometry.h"
#include "transforms/step_geometry.h"

namespace millrace::transforms {

struct ValueTable;

struct RowMix {
  // own * `own` + other * `other`, each operation rounded to f32; or, with a box, the other's pixels inside
  // it and its own elsewhere.
  float own = 1, other = 0;
  std::optional<base::Rect> box{};
};

class RowMixer {
 public:
  // Of f32 rows of three channels. `table` outlives it.
  RowMixer(PictureSize size, const ValueTable& table, bool of_pixels)
      : size_(size), table_(table), of_pixels_(of_pixels) {}

  bool of_pixels() const { return of_pixels_; }
  size_t bytes() const;                        // of a row half done; memory is aligned to 64
  base::ImageView pixels(uint8_t* row) const;  // where of_pixels()
  PictureSize size() const { return size_; }
  void mix(uint8_t* own, uint8_t* other, const RowMix& mix, float* out) const;

 private:
  PictureSize size_;
  const ValueTable& table_;
  bool of_pixels_;
};

}  // namespace millrace::transforms
