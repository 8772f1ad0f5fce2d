#include "transforms/noise.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>

#include "base/philox.h"

namespace millrace::transforms {

std::array<float, 4> normal_block(uint64_t key, uint64_t block) {
  const auto words =
      base::Philox::block({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                          {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
  std::array<float, 4> normals;
  for (int i = 0; i < 4; i += 2) {
    const float radius = std::sqrt(-2 * std::log((static_cast<float>(words[i]) + 1) * 0x1p-32f));
    const float turn = static_cast<float>(words[i + 1]) * (0x1p-31f * std::numbers::pi_v<float>);
    normals[i] = radius * std::cos(turn);
    normals[i + 1] = radius * std::sin(turn);
  }
  return normals;
}

void add_noise(const AddedNoise& noise, PictureSize size, void* out) {
  if (!noise.spec) return;
  const auto mean = static_cast<float>(noise.spec->mean), sigma = static_cast<float>(noise.spec->sigma);
  const bool clip = noise.spec->clip;
  auto* const bytes = static_cast<std::byte*>(out);
  const int64_t plane = int64_t{size.width} * size.height;
  std::array<float, 4> normals{};
  for (int64_t e = 0; e < 3 * plane; ++e) {
    if (e % 4 == 0) normals = normal_block(noise.key, static_cast<uint64_t>(e / 4));
    float value;
    std::memcpy(&value, bytes + e * sizeof(value), sizeof(value));
    const float more = mean + normals[static_cast<size_t>(e % 4)] * sigma;
    value += more;
    if (clip) value = std::clamp(value, 0.0f, 1.0f);
    if (noise.normalize) {
      const auto channel = static_cast<size_t>(e / plane);
      value -= static_cast<float>(noise.normalize->mean[channel]);
      value /= static_cast<float>(noise.normalize->std[channel]);
    }
    std::memcpy(bytes + e * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace millrace::transforms
