#include "loader/image_dataset.h"

#include "base/checked.h"

namespace millrace {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kKeepBytes = size_t{64} << 20;  // one huge picture must not make every thread hold on to its size

size_t align_up(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

ImageView PixelBuffer::resize(int32_t width, int32_t height) {
  const size_t stride = align_up(static_cast<size_t>(width) * kPixelBytes);
  const size_t bytes = checked_mul(stride, static_cast<size_t>(height), "a decoded picture") + kAlignment;
  if (bytes > memory_.size() || (memory_.size() > kKeepBytes && bytes < memory_.size() / 4)) {
    memory_ = {};  // before the new allocation: the contents need not move
    memory_.resize(bytes);
  }
  const size_t misaligned = reinterpret_cast<uintptr_t>(memory_.data()) % kAlignment;
  view_ = {memory_.data() + (kAlignment - misaligned) % kAlignment, width, height, static_cast<ptrdiff_t>(stride)};
  return view_;
}

}  // namespace millrace
