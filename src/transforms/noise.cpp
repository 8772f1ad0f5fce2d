#include "transforms/noise.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "transforms/normal_numbers.h"

namespace millrace::transforms {

std::array<float, 4> normal_block(uint64_t key, uint64_t block) {
  const NormalNumbers made = normal_numbers(key, block);
  return {made.v[0], made.v[1], made.v[2], made.v[3]};
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
