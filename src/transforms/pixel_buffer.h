// PixelBuffer: rows of RGBX in memory that is reused from sample to sample.
//
// Rows are 64-byte aligned and have at least kRowSlack bytes past their last pixel, so vector kernels may
// write whole vectors. The memory grows; it shrinks only from above kKeepBytes, so that one huge picture does
// not make every thread keep that much. resize() does not keep the contents. One owner, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "base/checked.h"
#include "base/geometry.h"

namespace millrace::transforms {

class PixelBuffer {
 public:
  static constexpr size_t kAlignment = 64, kRowSlack = 64, kKeepBytes = size_t{64} << 20;

  static ptrdiff_t stride(int32_t width) {
    return static_cast<ptrdiff_t>((size_t(width) * base::kPixelBytes + kRowSlack + kAlignment - 1) /
                                  kAlignment * kAlignment);
  }

  base::ImageView resize(int32_t width, int32_t height) {
    const ptrdiff_t stride = PixelBuffer::stride(width);
    const size_t bytes =
        base::checked_mul(static_cast<size_t>(stride), static_cast<size_t>(height), "a decoded picture");
    if (bytes > capacity_ || (capacity_ > kKeepBytes && bytes < capacity_ / 4)) {
      memory_.reset();
      capacity_ = 0;
      memory_.reset(static_cast<uint8_t*>(::operator new(bytes, std::align_val_t{kAlignment})));
      capacity_ = bytes;
    }
    view_ = {memory_.get(), width, height, stride};
    return view_;
  }
  base::ImageView view() const { return view_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { ::operator delete(p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  size_t capacity_ = 0;
  base::ImageView view_;
};

}  // namespace millrace::transforms
