// Interpolation: which filter resizes or maps a picture, by Pillow's names.
#pragma once

#include <cstdint>

namespace millrace {

enum class Interpolation : uint8_t { nearest, bilinear, bicubic, lanczos, box, hamming };

}  // namespace millrace
