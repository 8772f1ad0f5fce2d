// ValueTable: the tensor value of each of the 256 bytes of each channel, computed by the very operations
// torch does.
//
// The table defines ToTensor and Normalize: the vector kernels may compute instead of looking up, but only
// where they give the table's bits (ChannelMath). 768 elements; immutable after make_value_table().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/dtype.h"
#include "transforms/chain.h"

namespace millrace::transforms {

// The same values by arithmetic in f32 with fused multiply-adds:
//   x = fma(byte, scale_high, byte * scale_low);  d = x - mean;  q = d * inverse;  value = fma(fma(-q, std,
//   d), inverse, q)
// The first line is a product with a constant of twice f32's precision, the last a division by `std`
// (Markstein 1990). Both are rounded right nearly always; whether "nearly" is "always" for 256 inputs can be
// tested, and is.
struct ChannelMath {
  float scale_high = 1, scale_low = 0, mean = 0, inverse = 1, std = 1;
};

struct ValueTable {
  base::DType type = base::DType::f32;
  // Elements of `type`, one after the other, in the low bytes of each array.
  std::array<std::array<std::byte, 256 * sizeof(double)>, 3> channels{};
  std::array<ChannelMath, 3> math{};
  int32_t planes = 3;          // that a picture becomes; of grey ones the first may be enough
  bool interleaved = false;    // the three elements of a pixel lie side by side; of three planes only
  bool math_is_exact = false;  // on this machine: f32 only, and tested at creation

  template <class T>
  T value(int channel, uint8_t byte) const {
    T v;
    std::memcpy(&v, channels[channel].data() + byte * sizeof(T), sizeof(T));
    return v;
  }
};

// Throws Error(invalid_argument) when std is zero in the tensor's type.
ValueTable make_value_table(const ToTensor& to_tensor, const std::optional<Normalize>& normalize);

}  // namespace millrace::transforms
