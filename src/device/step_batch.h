// StepBatch: the steps of some pictures of a batch, run side by side: the first pass of each, then the second
// of each, and so on, in one launch for each kind of kernel.
//
// Owns no memory: bytes() of it at the place are the caller's, and may be let go when the stream has done the
// work. One owner, one thread.
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
  // Picture `sample` of the batch, which begins as `first` and goes through the steps; call it for rising
  // numbers.
  void add(int32_t sample, transforms::PictureSize first, std::span<const transforms::PictureStep> steps);

  bool empty() const { return pictures_.empty(); }
  size_t bytes() const;

  // Where the n-th picture that was added begins, in memory that is aligned to 16: RGBX, dense.
  uint32_t* picture(size_t n, void* memory) const;

  // Into `store.out`, by the store's scale and shift; its passes are filled in here.
  void run(void* memory, StoreKernel store, const Place& place) const;

 private:
  struct Picture {
    int32_t sample;
    transforms::PictureSize first;
    PicturePasses made;
    size_t pixels, sums;  // where its slots and sums begin in the memory, in bytes
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
