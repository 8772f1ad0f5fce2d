// Inverse DCT of four blocks at a time, dequantisation included, equal to libjpeg's "islow" to the last bit.
//
// The algorithm is that of Loeffler, Ligtenberg and Moschytz (ICASSP 1989) with 13-bit constants and
// libjpeg's two rounding steps. One vector lane group of 128 bits is one block, so every vector width runs
// the same code. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::codecs {

// `coefficients`: four blocks in the layout of block_reader.h, 64-byte aligned. `quant`: 64 values in natural
// order, 16-byte aligned. Writes 8 rows of 32 samples; `out` needs no alignment. False: a value in a block's
// first row is so large, eight times what 8-bit samples need, that libjpeg's shortcut for blocks with nothing
// else overflows; how it does differs by machine.
using IdctGroup = bool (*)(const int16_t* coefficients, const int16_t* quant, uint8_t* out, ptrdiff_t stride);

IdctGroup idct_group();  // the best for this machine

}  // namespace millrace::codecs
