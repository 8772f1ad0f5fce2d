#include "transforms/color_kernels.h"
namespace millrace {
void blend_with_level(const uint8_t* in, int32_t width, uint8_t level, float factor, uint8_t* out) { scalar::blend_with_level(in, width, level, factor, out); }
void blend_with_grey(const uint8_t* in, int32_t width, float factor, uint8_t* out) { scalar::blend_with_grey(in, width, factor, out); }
void shift_hue(const uint8_t* in, int32_t width, uint8_t shift, uint8_t* out) { scalar::shift_hue(in, width, shift, out); }
uint64_t sum_of_grey(const uint8_t* row, int32_t width) { return scalar::sum_of_grey(row, width); }
}
