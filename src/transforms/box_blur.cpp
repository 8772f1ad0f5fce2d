#include "transforms/box_blur.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace millrace::transforms {
namespace {

constexpr int kPasses = 3, kFractionBits = 24;
constexpr int kChannels = base::kPixelBytes;

struct Box {
  int32_t reach;          // whole pixels on each side
  uint32_t inner, outer;  // weights of these and of the next one on each side
};

// In floats where Pillow has floats.
Box box_of(float radius) {
  const float variance = radius * radius / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * variance + 1.0));
  const auto whole = static_cast<float>(std::floor((length - 1.0) / 2.0));
  float rest = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
  rest /= 6 * (variance - (whole + 1) * (whole + 1));
  const float reach = whole + rest;
  Box box{static_cast<int32_t>(reach), 0, 0};
  constexpr uint32_t one = 1u << kFractionBits;
  box.inner = static_cast<uint32_t>(static_cast<float>(one) / (reach * 2 + 1));
  box.outer = (one - static_cast<uint32_t>(box.reach * 2 + 1) * box.inner) / 2;
  return box;
}

uint8_t rounded(uint32_t sum, uint32_t far, const Box& box) {
  return static_cast<uint8_t>((sum * box.inner + far * box.outer + (1u << (kFractionBits - 1))) >>
                              kFractionBits);
}

// `padded`: a row that begins reach + 1 pixels before its first one, and goes on as long behind its last.
void blur_row(const uint8_t* padded, int32_t width, const Box& box, uint8_t* out) {
  const int64_t span = int64_t{2 * box.reach + 1} * kChannels;
  uint32_t sums[kChannels] = {};
  const uint8_t* first = padded + kChannels;  // of the box
  for (int64_t i = 0; i < span; i += kChannels)
    for (int c = 0; c < kChannels; ++c) sums[c] += first[i + c];
  for (int32_t x = 0; x < width; ++x, first += kChannels, out += kChannels)
    for (int c = 0; c < kChannels; ++c) {
      out[c] = rounded(sums[c], uint32_t{first[c - kChannels]} + first[span + c], box);
      sums[c] += uint32_t{first[span + c]} - first[c];
    }
}

void pad_row(const uint8_t* row, int32_t width, int32_t by, uint8_t* padded) {
  const auto fill = [&](uint8_t* to, const uint8_t* pixel) {
    for (int32_t i = 0; i < by; ++i) std::memcpy(to + int64_t{i} * kChannels, pixel, kChannels);
  };
  const int64_t bytes = int64_t{width} * kChannels;
  fill(padded, row);
  std::memcpy(padded + int64_t{by} * kChannels, row, bytes);
  fill(padded + int64_t{by} * kChannels + bytes, row + bytes - kChannels);
}

void blur_columns(base::ImageView in, const Box& box, std::vector<uint32_t>& sums, base::ImageView out) {
  const int64_t bytes = int64_t{in.width} * kChannels;
  const auto row = [&](int32_t y) { return in.row(std::clamp(y, 0, in.height - 1)); };
  sums.assign(static_cast<size_t>(bytes), 0);
  uint32_t* const sum = sums.data();
  for (int32_t y = -box.reach; y <= box.reach; ++y) {
    const uint8_t* from = row(y);
    for (int64_t i = 0; i < bytes; ++i) sum[i] += from[i];
  }
  for (int32_t y = 0; y < in.height; ++y) {
    const uint8_t *before = row(y - box.reach - 1), *first = row(y - box.reach),
                  *behind = row(y + box.reach + 1);
    uint8_t* to = out.row(y);
    for (int64_t i = 0; i < bytes; ++i) {
      to[i] = rounded(sum[i], uint32_t{before[i]} + behind[i], box);
      sum[i] += uint32_t{behind[i]} - first[i];
    }
  }
}

}  // namespace

base::ImageView blur_picture(base::ImageView picture, double radius, std::array<PixelBuffer, 2>& memory) {
  const Box box = box_of(static_cast<float>(radius));
  base::ImageView out = memory[0].resize(picture.width, picture.height);
  const base::ImageView other = memory[1].resize(picture.width, picture.height);
  std::vector<uint8_t> padded(
      (static_cast<size_t>(picture.width) + 2 * (static_cast<size_t>(box.reach) + 1)) * kChannels);
  for (int32_t y = 0; y < picture.height; ++y)
    for (int pass = 0; pass < kPasses; ++pass) {
      pad_row(pass == 0 ? picture.row(y) : out.row(y), picture.width, box.reach + 1, padded.data());
      blur_row(padded.data(), picture.width, box, out.row(y));
    }
  std::vector<uint32_t> sums;
  blur_columns(out, box, sums, other);
  blur_columns(other, box, sums, out);
  blur_columns(out, box, sums, other);
  return other;
}

}  // namespace millrace::transforms
