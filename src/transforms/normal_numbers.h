// Four normal numbers of a key, as noise.h describes, for the CPU and the GPU. The GPU's logarithms, sines
// and cosines may differ in the last bit. Pure, any thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/host_device.h"
#include "base/philox_rounds.h"

namespace millrace::transforms {

struct NormalNumbers {
  float v[4];
};
MILLRACE_BOTH inline NormalNumbers normal_numbers(uint64_t key, uint64_t block) {
  uint32_t words[4] = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0};
  base::philox_rounds(words, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
  constexpr float kPi = std::numbers::pi_v<float>;
  NormalNumbers normals;
  for (int i = 0; i < 4; i += 2) {
    const float radius = sqrtf(-2 * logf((static_cast<float>(words[i]) + 1) * 0x1p-32f));
    const float turn = static_cast<float>(words[i + 1]) * (0x1p-31f * kPi);
    normals.v[i] = radius * cosf(turn);
    normals.v[i + 1] = radius * sinf(turn);
  }
  return normals;
}

}  // namespace millrace::transforms
