// half: float from and to IEEE binary16 and bfloat16, to the nearest, halves to even. Pure; any thread.
//
// For the CPU. What runs on the GPU, too, has its own (device/batch_images.h), which is the GPU's
// instructions there.
#pragma once

#include <cstdint>

namespace millrace::base {

uint16_t to_f16(float v);
uint16_t to_bf16(float v);
float from_f16(uint16_t v);
float from_bf16(uint16_t v);

}  // namespace millrace::base
