// PixelBuffer: rows of RGBX in memory that is reused from sample to sample.
//
// Rows are 64-byte aligned and have at least kRowSlack bytes behind their last pixel, so vector kernels may write whole
// vectors. Grows, never shrinks; contents are not kept. One owner, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "base/checked.h"
#include "base/geometry.h"

namespace millrace {

class PixelBuffer {
 public:
  static constexpr size_t kAlignment = 64, kRowSlack = 64;

  ImageView view(int32_t width, int32_t height) {
    const size_t stride = (size_t(width) * kPixelBytes + kRowSlack + kAlignment - 1) / kAlignment * kAlignment;
    const size_t bytes = checked_mul(stride, static_cast<size_t>(height), "picture between two transforms");
    if (bytes > capacity_) {
      memory_.reset();
      memory_.reset(static_cast<uint8_t*>(::operator new(bytes, std::align_val_t{kAlignment})));
      capacity_ = bytes;
    }
    return {memory_.get(), width, height, static_cast<ptrdiff_t>(stride)};
  }

 private:
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete(p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  size_t capacity_ = 0;
};

}  // namespace millrace
