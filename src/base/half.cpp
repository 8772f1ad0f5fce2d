#include "base/half.h"

#include <bit>
#include <cmath>

namespace millrace::base {

uint16_t to_bf16(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  if (std::isnan(v)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float from_bf16(uint16_t v) { return std::bit_cast<float>(uint32_t{v} << 16); }

uint16_t to_f16(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(v);
  if (!(magnitude < 65520.0f)) return std::isnan(v) ? 0x7E00 : static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < 0x1p-14f)  // subnormal: a multiple of 2^-24, and the f32 sum rounds to one
    return static_cast<uint16_t>(sign |
                                 (std::bit_cast<uint32_t>(magnitude + 0.5f) - std::bit_cast<uint32_t>(0.5f)));
  const uint32_t m = std::bit_cast<uint32_t>(magnitude) - (112u << 23);  // exponent bias 127 to 15
  return static_cast<uint16_t>(sign | (m + 0xFFF + (m >> 13 & 1)) >> 13);
}

float from_f16(uint16_t v) {
  const uint32_t sign = uint32_t{v & 0x8000u} << 16, rest = v & 0x7FFFu;
  if (rest < 0x400) {
    const float magnitude = static_cast<float>(rest) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t exponent_shift = rest >= 0x7C00 ? 224u : 112u;
  return std::bit_cast<float>(sign | ((rest << 13) + (exponent_shift << 23)));
}

}  // namespace millrace::base
