// Batches that own their memory, filled with numbers that are the same in every run.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "device/batch_images.h"

namespace millrace::device {

inline const base::DType kImageTypes[] = {base::DType::u8, base::DType::f16, base::DType::bf16,
                                          base::DType::f32};

struct TestImages {
  std::vector<uint8_t> memory;
  BatchImages images;

  // `offset`: bytes by which the data misses the vectors' alignment; a multiple of the element's size.
  TestImages(base::DType type, int64_t n, int32_t c, int32_t h, int32_t w, bool channels_last = false,
             size_t offset = 0)
      : memory(static_cast<size_t>(n * c * h * w * element_bytes(type)) + offset + 16) {
    const size_t misses = (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16;
    images = {memory.data() + (misses + offset) % 16, type, n, c, h, w, channels_last};
  }
  int64_t elements() const { return images.n * images.c * images.pixels(); }
  float at(int64_t n, int64_t pixel, int32_t c) const {
    return load_element(images.data, images.type, images.element(n, pixel, c));
  }

  // Whole numbers for uint8, 256 steps of 0..1 for floats; pixel by pixel, so equal for both layouts.
  void fill(uint32_t seed = 1) {
    std::mt19937 random(seed);
    for (int64_t n = 0; n < images.n; ++n)
      for (int64_t p = 0; p < images.pixels(); ++p)
        for (int32_t c = 0; c < images.c; ++c) {
          const auto v = static_cast<float>(random() % 256);
          store_element(images.data, images.type, images.element(n, p, c),
                        images.type == base::DType::u8 ? v : v / 255);
        }
  }
};

// The largest difference of two batches of the same shape, whatever their types and layouts.
inline float largest_difference(const TestImages& a, const TestImages& b) {
  float most = 0;
  for (int64_t n = 0; n < a.images.n; ++n)
    for (int64_t p = 0; p < a.images.pixels(); ++p)
      for (int32_t c = 0; c < a.images.c; ++c)
        most = std::fmax(most, std::fabs(a.at(n, p, c) - b.at(n, p, c)));
  return most;
}

}  // namespace millrace::device
