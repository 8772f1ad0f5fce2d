// Passes that make each pixel of few others: moves, changes of colour, mixtures, affine maps and
// perspectives. pass.h says what a pass is, batch_kernels.h how kernels are made.
#pragma once

#include <cstdint>

#include "device/pass.h"
#include "transforms/pixel_places.h"

namespace millrace::device {

// Moves of whole pixels, and passes that need few other pixels.
struct PixelKernel : PassKernel {
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const Pass& p = passes[samples.first + i];
    switch (p.kind) {
      case PassKind::scale: return scaled(p, g);
      case PassKind::add_share: return add_share(p, g);
      default:
        for_pixels(p, g, [&p](int64_t at, int32_t x, int32_t y) { p.slot(p.to)[at] = made(p, at, x, y); });
    }
  }

 private:
  MILLRACE_BOTH static uint32_t seen(const Pass& p, int64_t x, int64_t y) {
    const bool inside = x >= 0 && y >= 0 && x < p.in_width && y < p.in_height;
    return inside ? p.slot(p.from)[y * p.in_width + x] : p.fill;
  }
  MILLRACE_BOTH static uint32_t made(const Pass& p, int64_t at, int32_t x, int32_t y) {
    const uint32_t* const in = p.slot(p.from);
    switch (p.kind) {
      case PassKind::move: {
        const Pass::Move& m = p.move;
        const int32_t left = m.left + (m.flip_x ? p.width - 1 - x : x),
                      top = m.top + (m.flip_y ? p.height - 1 - y : y);
        return seen(p, transforms::padded_place(left, p.in_width, m.mode, -1),
                    transforms::padded_place(top, p.in_height, m.mode, -1));
      }
      case PassKind::nearest: return seen(p, p.nearest.x(x, y), p.nearest.y(x, y));
      case PassKind::nearest_perspective: {
        const transforms::MappedPlace place = transforms::mapped_place(p.inverse, true, x, y);
        if (!place.inside(p.in_width, p.in_height)) return p.fill;
        return in[int64_t{static_cast<int32_t>(place.y)} * p.in_width + static_cast<int32_t>(place.x)];
      }
      case PassKind::recolor: return packed(recolored(p, unpacked(in[at])));
      case PassKind::sharpen: return sharpened(p, in, at, x, y);
      case PassKind::blend_sums: {
        const float* sums = p.sums + 3 * at;
        const Rgb8 sum{transforms::level_of(sums[0]), transforms::level_of(sums[1]),
                       transforms::level_of(sums[2])};
        return packed(blended8(unpacked(p.slot(p.other)[at]), sum, p.factor));
      }
      case PassKind::blend:
        return packed(blended8(unpacked(p.slot(p.other)[at]), unpacked(in[at]), p.factor));
      default: return in[at];
    }
  }
  MILLRACE_BOTH static Rgb8 recolored(const Pass& p, Rgb8 v) {
    for (int i = 0; i < kMostChanges && !p.changes[i].is_none(); ++i) {
      const Change& change = p.changes[i];
      if (change.looks_up) {
        const uint8_t* table = p.levels->table;
        v = {table[v.r], table[256 + v.g], table[512 + v.b]};
      } else {
        transforms::PixelOps::with(change.kind, [&v, &change](auto op) { v = op.pixel(v, change.amount); });
      }
    }
    return v;
  }
  // Pillow leaves the outermost pixels alone.
  MILLRACE_BOTH static uint32_t sharpened(const Pass& p, const uint32_t* in, int64_t at, int32_t x,
                                          int32_t y) {
    if (x == 0 || y == 0 || x == p.width - 1 || y == p.height - 1) return in[at];
    const Rgb8 v = unpacked(in[at]);
    Rgb8 sum{4 * v.r, 4 * v.g, 4 * v.b};
    for (int64_t row = at - p.width; row <= at + p.width; row += p.width)
      for (int64_t i = row - 1; i <= row + 1; ++i) {
        const Rgb8 n = unpacked(in[i]);
        sum.r += n.r, sum.g += n.g, sum.b += n.b;
      }
    return packed({transforms::sharpened8(sum.r, v.r, p.factor), transforms::sharpened8(sum.g, v.g, p.factor),
                   transforms::sharpened8(sum.b, v.b, p.factor)});
  }
  MILLRACE_BOTH static void add_share(const Pass& p, int64_t g) {
    for_pixels(p, g, [&p](int64_t at, int32_t, int32_t) {
      const Rgb8 v = unpacked(p.slot(p.from)[at]);
      const int32_t levels[] = {v.r, v.g, v.b};
      MILLRACE_UNROLL
      for (int c = 0; c < 3; ++c)
        p.sums[3 * at + c] = (p.first ? 0.0f : p.sums[3 * at + c]) + p.factor * static_cast<float>(levels[c]);
    });
  }
  // Pillow adds the steps up one by one, and the sum's rounding errors are part of the result.
  MILLRACE_BOTH static double stepped(double first, double step, int32_t count) {
    for (int32_t i = 0; i < count; ++i) first += step;
    return first;
  }
  MILLRACE_BOTH static void scaled(const Pass& p, int64_t g) {
    const Pass::Scale& s = p.scale;
    int32_t next_x = -1, last_y = -1, row = -1;
    double along = 0;
    for_pixels(p, g, [&](int64_t at, int32_t x, int32_t y) {
      along = x == next_x ? along + s.step_x : stepped(s.first_x, s.step_x, x);
      next_x = x + 1;
      if (y != last_y) row = transforms::place_at(stepped(s.first_y, s.step_y, y), p.in_height, -1);
      last_y = y;
      p.slot(p.to)[at] = seen(p, transforms::place_at(along, p.in_width, -1), row);
    });
  }
};

// Bilinear and bicubic maps and perspectives, in f64.
struct MapKernel : PassKernel {
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const Pass& p = passes[samples.first + i];
    const uint32_t* const in = p.slot(p.from);
    const auto at = [&](int32_t x, int32_t y) {
      x = x < 0 ? 0 : x < p.in_width ? x : p.in_width - 1;
      y = y < 0 ? 0 : y < p.in_height ? y : p.in_height - 1;
      return unpacked(in[int64_t{y} * p.in_width + x]);
    };
    const bool linear = p.kind == PassKind::bilinear || p.kind == PassKind::bilinear_perspective;
    const bool divides = p.kind == PassKind::bilinear_perspective || p.kind == PassKind::bicubic_perspective;
    for_pixels(p, g, [&](int64_t to, int32_t x, int32_t y) {
      const transforms::MappedPlace place = transforms::mapped_place(p.inverse, divides, x, y);
      if (!place.inside(p.in_width, p.in_height)) {
        p.slot(p.to)[to] = p.fill;
        return;
      }
      Rgb8 v;
      if (linear)
        transforms::smooth_pixel_at<transforms::LinearFilter>(place.x, place.y, at, v);
      else
        transforms::smooth_pixel_at<transforms::CubicFilter>(place.x, place.y, at, v);
      p.slot(p.to)[to] = packed(v);
    });
  }
};

}  // namespace millrace::device
