// FuzzRegion: a part of a picture that the input's last bytes choose, and memory for it.
//
// The memory is an exact allocation, so that the address sanitizer sees a write behind the region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/geometry.h"
#include "fuzz_input.h"

namespace millrace {

struct FuzzRegion {
  FuzzRegion(std::span<const uint8_t> bytes, int32_t width, int32_t height) {
    uint32_t choice[4] = {};
    for (size_t i = 0; i < 8 && i < bytes.size(); ++i)
      choice[i / 2] = choice[i / 2] << 8 | bytes[bytes.size() - 1 - i];
    const auto pick = [](uint32_t from, int32_t range) {
      return static_cast<int32_t>(from % static_cast<uint32_t>(range));
    };
    place.left = pick(choice[0], width);
    place.top = pick(choice[1], height);
    place.width = 1 + pick(choice[2], width - place.left);
    place.height = 1 + pick(choice[3], height - place.top);
    memory = std::make_unique<uint8_t[]>(static_cast<size_t>(place.width) *
                                         static_cast<size_t>(place.height) * base::kPixelBytes);
  }
  base::ImageView pixels() const {
    return {memory.get(), place.width, place.height, ptrdiff_t{place.width} * base::kPixelBytes};
  }

  base::Rect place;
  std::unique_ptr<uint8_t[]> memory;
};

}  // namespace millrace
