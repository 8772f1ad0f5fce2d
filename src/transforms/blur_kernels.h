// The inner loops of a blur: weighted sums of rows, and along a row, in f32.
//
// Each function exists twice, in `scalar` and vectorised by Highway. Products and sums are rounded one by
// one, first tap first, so all instruction sets give the same bits. No state, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::transforms {

// Computes torchvision's Gaussian: `taps` weights with a sum of 1.
void weigh_blur(double sigma, int32_t taps, std::vector<float>& weights);

// out[i] = sum over t of weights[t] * rows[t * stride + i], for i in [begin, end).
void weigh_down(const uint8_t* rows, ptrdiff_t stride, std::span<const float> weights, size_t begin,
                size_t end, float* out);

// out[i] = the sum over t of weights[t] * in[i + t * step], rounded (halves to even) and cut off at 255, for
// i in [begin, end).
void weigh_along(const float* in, size_t step, std::span<const float> weights, size_t begin, size_t end,
                 uint8_t* out);

namespace scalar {
void weigh_down(const uint8_t* rows, ptrdiff_t stride, std::span<const float> weights, size_t begin,
                size_t end, float* out);
void weigh_along(const float* in, size_t step, std::span<const float> weights, size_t begin, size_t end,
                 uint8_t* out);
}  // namespace scalar

}  // namespace millrace::transforms
