// Look-up tables that follow from how often each byte occurs in a picture: of Pillow's ImageOps.autocontrast
// and equalize, and of ImageEnhance.Contrast. For the CPU and the GPU. Pure, any thread.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "transforms/byte_pixels.h"

namespace millrace::transforms {

MILLRACE_BOTH inline void identity_table(uint8_t* table) {
  for (int32_t i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(i);
}

// autocontrast without a cutoff: the darkest becomes 0, the brightest 255. `counts`: 256 of them.
template <class Count>
MILLRACE_BOTH inline void autocontrast_table(const Count* counts, uint8_t* table) {
  int32_t low = 0, high = 255;
  while (low < 255 && counts[low] == 0) ++low;
  while (high > 0 && counts[high] == 0) --high;
  if (high <= low) return identity_table(table);
  const double scale = 255.0 / (high - low), offset = -low * scale;
  for (int32_t i = 0; i < 256; ++i) {
    const double level = i * scale + offset;
    table[i] = static_cast<uint8_t>(level < 0.0 ? 0.0 : level > 255.0 ? 255.0 : level);
  }
}

// Each byte becomes the share of the bytes below it.
template <class Count>
MILLRACE_BOTH inline void equalize_table(const Count* counts, uint8_t* table) {
  int64_t all = 0, last = 0;
  for (int32_t i = 0; i < 256; ++i) {
    const auto count = static_cast<int64_t>(counts[i]);
    all += count;
    if (count != 0) last = count;
  }
  const int64_t step = (all - last) / 255;
  if (step == 0) return identity_table(table);
  int64_t below = step / 2;
  for (int32_t i = 0; i < 256; ++i) {
    const int64_t share = below / step;
    table[i] = static_cast<uint8_t>(share < 255 ? share : 255);
    below += static_cast<int64_t>(counts[i]);
  }
}

// Returns the level that ImageEnhance.Contrast blends with: the mean of the grey picture, rounded.
MILLRACE_BOTH inline int32_t mean_level(uint64_t sum, int32_t width, int32_t height) {
  return static_cast<int32_t>(static_cast<double>(sum) / (static_cast<double>(width) * height) + 0.5);
}

// `counts`: of the grey picture.
template <class Count>
MILLRACE_BOTH inline void contrast_table(const Count* counts, int32_t width, int32_t height, float factor,
                                         uint8_t* table) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < 256; ++i) sum += static_cast<uint64_t>(counts[i]) * static_cast<uint64_t>(i);
  const int32_t level = mean_level(sum, width, height);
  for (int32_t i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(blended8(level, i, factor));
}

}  // namespace millrace::transforms
