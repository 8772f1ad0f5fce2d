// The inner loops: the weights of a resize, resampling along a row, blending rows, and rows of bytes to
// planes of numbers.
//
// Every function exists twice: in `scalar`, which defines the results, and vectorised by Highway, which
// picks the best instruction set at run time and gives the same bits. No state, any thread. Rows are RGBX;
// the X bytes have no meaning.
#pragma once

#include <cstdint>

#include "transforms/resample_taps.h"
#include "transforms/value_table.h"

namespace millrace::transforms {

// Fills taps.weights from taps.places.
void weigh_taps(Taps& taps);

inline constexpr int kRowGroup = 4;  // rows that resample_rows takes at once

// outs[r][o] = sum of taps over rows[r], for every output o of `taps`. 1 <= n_rows <= kRowGroup. `rows` have
// taps.in_size pixels; `outs` have kRowSlack bytes of room past their last pixel (pixel_buffer.h).
void resample_rows(const uint8_t* const* rows, int n_rows, const Taps& taps, uint8_t* const* outs);

// out[x] = the weighted sum of the 2 * n_pairs `rows` at x. `out` has kRowSlack bytes of room past its last
// pixel.
void blend_rows(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width, uint8_t* out);

// Converts one row to three planes; `planes` point to elements of table.type. If table.interleaved, they
// point to the first pixel's three elements, and the pixels follow each other, three elements each.
void store_row(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes);

// blend_rows and store_row in one go, for tables with math_is_exact: the pixels never leave the registers.
void blend_to_planes(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                     const ValueTable& table, void* const* planes);

// Converts both rows as store_row() does and stores own value * `own` + other value * `other`, each operation
// rounded to f32. For f32 tables that are not interleaved.
void mix_to_planes(const uint8_t* own_row, const uint8_t* other_row, int32_t width, const ValueTable& table,
                   float own, float other, void* const* planes);

// Whether the vector kernels' arithmetic gives the table's values, bit for bit, on this machine.
bool math_gives_table(const ValueTable& table);

namespace scalar {
void weigh_taps(Taps& taps);
void resample_rows(const uint8_t* const* rows, int n_rows, const Taps& taps, uint8_t* const* outs);
void blend_rows(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width, uint8_t* out);
void store_row(const uint8_t* row, int32_t width, const ValueTable& table, void* const* planes);
void blend_to_planes(const uint8_t* const* rows, const TapPair* weights, int n_pairs, int32_t width,
                     const ValueTable& table, void* const* planes);
void mix_to_planes(const uint8_t* own_row, const uint8_t* other_row, int32_t width, const ValueTable& table,
                   float own, float other, void* const* planes);
}  // namespace scalar

}  // namespace millrace::transforms
