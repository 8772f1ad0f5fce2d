#include "codecs/png_rows.h"

#include <cstdlib>
#include <cstring>

#include "base/geometry.h"
#include "base/simd_targets.h"
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace::codecs {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

uint8_t paeth(int left, int up, int corner) {
  const int to_left = std::abs(up - corner), to_up = std::abs(left - corner),
            to_corner = std::abs(left + up - 2 * corner);
  if (to_left <= to_up && to_left <= to_corner) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(to_up <= to_corner ? up : corner);
}

uint8_t sum(int a, int b) { return static_cast<uint8_t>(a + b); }

// Each pixel waits for its left neighbour, so all there is to do at once is one pixel's bytes: N of them in a
// vector, of which kPixel count.
template <size_t kPixel>
struct Pixel {
  static constexpr size_t kLanes = kPixel <= 4 ? 4 : 8;
  using Narrow = hn::FixedTag<uint8_t, kLanes>;
  using Wide = hn::FixedTag<int16_t, kLanes>;

  static HWY_INLINE hn::Vec<Narrow> load(const uint8_t* from) { return hn::LoadU(Narrow(), from); }
  // The bytes after the pixel stay: they are the next one, still filtered.
  static HWY_INLINE void store(hn::Vec<Narrow> value, uint8_t* to) {
    alignas(16) uint8_t bytes[16];
    hn::Store(value, Narrow(), bytes);
    std::memcpy(to, bytes, kPixel);
  }
};

template <size_t kPixel>
void undo_sub(uint8_t* row, size_t bytes) {
  using P = Pixel<kPixel>;
  auto left = hn::Zero(typename P::Narrow());
  for (size_t i = 0; i < bytes; i += kPixel) {
    left = hn::Add(P::load(row + i), left);
    P::store(left, row + i);
  }
}

template <size_t kPixel>
void undo_average(uint8_t* row, const uint8_t* above, size_t bytes) {
  using P = Pixel<kPixel>;
  const typename P::Narrow d;
  const auto one = hn::Set(d, 1);
  auto left = hn::Zero(d);
  for (size_t i = 0; i < bytes; i += kPixel) {
    const auto up = P::load(above + i);
    const auto rounded_down = hn::Sub(hn::AverageRound(left, up), hn::And(hn::Xor(left, up), one));
    left = hn::Add(P::load(row + i), rounded_down);
    P::store(left, row + i);
  }
}

template <size_t kPixel>
void undo_paeth(uint8_t* row, const uint8_t* above, size_t bytes) {
  using P = Pixel<kPixel>;
  const typename P::Wide d;
  const typename P::Narrow d8;
  const auto low = hn::Set(d, 255);
  auto left = hn::Zero(d), corner = hn::Zero(d);
  for (size_t i = 0; i < bytes; i += kPixel) {
    const auto up = hn::PromoteTo(d, P::load(above + i));
    const auto from_corner = hn::Sub(up, corner), across = hn::Sub(left, corner);
    const auto to_left = hn::Abs(from_corner), to_up = hn::Abs(across),
               to_corner = hn::Abs(hn::Add(from_corner, across));
    const auto least = hn::Min(to_left, hn::Min(to_up, to_corner));
    const auto guess =
        hn::IfThenElse(hn::Eq(least, to_left), left, hn::IfThenElse(hn::Eq(least, to_up), up, corner));
    corner = up;
    left = hn::And(hn::Add(hn::PromoteTo(d, P::load(row + i)), guess), low);
    P::store(hn::DemoteTo(d8, left), row + i);
  }
}

template <size_t kPixel>
void undo(int filter, uint8_t* row, const uint8_t* above, size_t bytes) {
  if (filter == 1)
    undo_sub<kPixel>(row, bytes);
  else if (filter == 3)
    undo_average<kPixel>(row, above, bytes);
  else
    undo_paeth<kPixel>(row, above, bytes);
}

void undo_small(int filter, uint8_t* row, const uint8_t* above, size_t bytes, size_t pixel) {
  for (size_t i = 0; i < bytes; ++i) {
    const int left = i < pixel ? 0 : row[i - pixel], corner = i < pixel ? 0 : above[i - pixel], up = above[i];
    row[i] = sum(row[i], filter == 1 ? left : filter == 3 ? (left + up) / 2 : paeth(left, up, corner));
  }
}

void expand_rgb(const uint8_t* from, int32_t count, uint8_t* to) {
  const hn::FixedTag<uint8_t, 16> d;
  constexpr int32_t kStep = 16;
  int32_t x = 0;
  for (; x + kStep <= count; x += kStep) {
    hn::Vec<decltype(d)> r, g, b;
    hn::LoadInterleaved3(d, from + 3 * x, r, g, b);
    hn::StoreInterleaved4(r, g, b, b, d, to + base::kPixelBytes * x);
  }
  for (; x < count; ++x) std::memcpy(to + base::kPixelBytes * x, from + 3 * x, 3);
}

// Pixels of kSize bytes, with green and blue kStep and 2 x kStep after red; 0: they are grey.
template <int kSize, int kStep>
void expand_bytes(const uint8_t* from, int32_t count, uint8_t* to) {
  for (int32_t x = 0; x < count; ++x, from += kSize, to += base::kPixelBytes) {
    to[0] = from[0];
    to[1] = from[kStep];
    to[2] = from[2 * kStep];
    to[3] = 255;
  }
}

void expand_grey16(const uint8_t* from, int32_t count, uint8_t* to) {
  for (int32_t x = 0; x < count; ++x, from += 2, to += base::kPixelBytes)
    to[0] = to[1] = to[2] = from[0] ? 255 : from[1];
}

}  // namespace
}  // namespace millrace::codecs
HWY_AFTER_NAMESPACE();

namespace millrace::codecs {

bool unfilter_row(int filter, uint8_t* row, const uint8_t* above, size_t bytes, size_t pixel_bytes) {
  if (filter < 0 || filter > 4) return false;
  if (filter == 0) return true;
  if (filter == 2) {
    for (size_t i = 0; i < bytes; ++i) row[i] = sum(row[i], above[i]);
    return true;
  }
  switch (pixel_bytes) {
    case 3: undo<3>(filter, row, above, bytes); break;
    case 4: undo<4>(filter, row, above, bytes); break;
    case 6: undo<6>(filter, row, above, bytes); break;
    case 8: undo<8>(filter, row, above, bytes); break;
    default: undo_small(filter, row, above, bytes, pixel_bytes);
  }
  return true;
}

PngColors::PngColors(const PngFile& file) : depth_(file.depth), color_(file.color), table_{} {
  if (depth_ > 8) return;
  const size_t values = size_t{1} << depth_;
  for (size_t value = 0; value < values; ++value) {
    uint8_t pixel[base::kPixelBytes] = {0, 0, 0, 255};  // black where the palette has no entry
    if (color_ == PngColor::palette) {
      if (3 * value < file.palette.size()) std::memcpy(pixel, file.palette.data() + 3 * value, 3);
    } else {
      std::memset(pixel, static_cast<int>(value * 255 / (values - 1)), 3);
    }
    std::memcpy(&table_[value], pixel, base::kPixelBytes);
  }
}

void PngColors::look_up(const uint8_t* row, int32_t first, int32_t count, uint8_t* rgbx) const {
  if (depth_ == 8) {
    for (int32_t x = 0; x < count; ++x)
      std::memcpy(rgbx + base::kPixelBytes * x, &table_[row[first + x]], base::kPixelBytes);
    return;
  }
  const int32_t per_byte = 8 / depth_;
  const uint32_t mask = (1u << depth_) - 1;
  for (int32_t x = first; x < first + count; ++x, rgbx += base::kPixelBytes) {
    const int shift = 8 - depth_ * (x % per_byte + 1);
    std::memcpy(rgbx, &table_[row[x / per_byte] >> shift & mask], base::kPixelBytes);
  }
}

void PngColors::expand(const uint8_t* row, int32_t first, int32_t count, uint8_t* rgbx) const {
  const bool wide = depth_ == 16;
  switch (color_) {
    case PngColor::palette: return look_up(row, first, count, rgbx);
    case PngColor::grey:
      if (!wide) return look_up(row, first, count, rgbx);
      return expand_grey16(row + ptrdiff_t{2} * first, count, rgbx);
    case PngColor::grey_alpha:
      if (!wide) return expand_bytes<2, 0>(row + ptrdiff_t{2} * first, count, rgbx);
      return expand_bytes<4, 0>(row + ptrdiff_t{4} * first, count, rgbx);
    case PngColor::rgb:
      if (!wide) return expand_rgb(row + ptrdiff_t{3} * first, count, rgbx);
      return expand_bytes<6, 2>(row + ptrdiff_t{6} * first, count, rgbx);
    case PngColor::rgb_alpha:
      if (!wide) return expand_bytes<4, 1>(row + ptrdiff_t{4} * first, count, rgbx);
      return expand_bytes<8, 2>(row + ptrdiff_t{8} * first, count, rgbx);
  }
}

}  // namespace millrace::codecs
