// StepBatch: the steps of some pictures of a batch, run side by side: the first pass of each, then the second
// of each, and so on, in one launch for each kind of kernel.
//
// Owns no memory: the caller provides bytes() bytes at the place and may free them when the stream has done
// the work. One owner, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/kernel_launch.h"
#include "device/line_kernels.h"
#include "device/picture_passes.h"

namespace millrace::device {

class StepBatch {
 public:
  // Adds picture `sample` of the batch, of size `first`, with its steps. Call it with rising sample numbers.
  void add(int32_t sample, transforms::PictureSize first, std::span<const transforms::PictureStep> steps);

  bool empty() const { return pictures_.empty(); }
  size_t bytes() const;

  // Returns the first pixel of the n-th added picture (RGBX, dense) in `memory`, which must be aligned to 16.
  uint32_t* picture(size_t n, void* memory) const;

  // Runs all steps and writes to `store.out` with the store's scale and shift; sets the store's passes.
  void run(void* memory, StoreKernel store, const Place& place) const;

 private:
  struct Picture {
    int32_t sample;
    transforms::PictureSize first;
    PicturePasses made;
    size_t pixels, sums;  // byte offsets of its slots and sums in the memory
    size_t levels, weights, table;
  };
  size_t levels_begin() const;
  size_t weights_begin() const;
  size_t tables_begin() const;
  Pass placed(const Picture& picture, const PicturePasses::Planned& planned, uint8_t* memory) const;

  std::vector<Picture> pictures_;
  size_t picture_bytes_ = 0, levels_ = 0, weights_ = 0, table_entries_ = 0,
         passes_ = 0;  // one of each picture stores it
};

}  // namespace millrace::device
