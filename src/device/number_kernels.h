// Kernels on the finished numbers of a batch: they add noise and erase rectangles, as the CPU's add_noise()
// and erase() do (src/transforms). batch_kernels.h says how kernels are made.
//
// A group is eight elements, counted channel by channel and row by row; each element uses the normal number
// of its place.
#pragma once

#include <cstdint>

#include "device/batch_kernels.h"
#include "transforms/normal_numbers.h"

namespace millrace::device {

// Calls make(e, n) for the elements e of a group below `count`; n is normal number e of the key.
template <class Make>
MILLRACE_BOTH inline void for_normals(uint64_t key, int64_t group, int64_t count, Make&& make) {
  static_assert(kGroupPixels % 4 == 0, "whole blocks of normal numbers");
  transforms::NormalNumbers normals{};
  for (int64_t e = group * kGroupPixels; e < (group + 1) * kGroupPixels && e < count; ++e) {
    if (e % 4 == 0) normals = transforms::normal_numbers(key, static_cast<uint64_t>(e / 4));
    make(e, normals.v[e % 4]);
  }
}

// Adds noise to values of f32, then normalises them if `normalizes`.
struct NoiseKernel {
  static constexpr int32_t kMost = 120;
  BatchImages out;
  SampleRange samples;  // of `each`
  float mean, sigma;
  bool clip, divides, normalizes;  // divides: bytes are divided by 255, not multiplied by its reciprocal
  float to_subtract[kMaxChannels], to_divide_by[kMaxChannels];
  struct Each {
    uint64_t key;
    int32_t sample;  // of the batch
  } each[kMost];

  MILLRACE_BOTH int64_t groups() const {
    return (kMaxChannels * out.pixels() + kGroupPixels - 1) / kGroupPixels;
  }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const int64_t plane = out.pixels();
    auto* const values = static_cast<float*>(out.data);
    for_normals(each[i].key, g, kMaxChannels * plane, [&](int64_t e, float normal) {
      const auto channel = static_cast<int32_t>(e / plane);
      const int64_t at = out.element(each[i].sample, e - channel * plane, channel);
      float value = values[at];
      if (divides) value = rintf(value * 255.0f) / 255.0f;
      const float more = mean + normal * sigma;
      value += more;
      if (clip) value = value < 0.0f ? 0.0f : value > 1.0f ? 1.0f : value;
      if (normalizes) {
        value -= to_subtract[channel];
        value /= to_divide_by[channel];
      }
      values[at] = value;
    });
  }
};

// Erases rectangles of several pictures, one of each.
struct EraseBoxKernel {
  static constexpr int32_t kMost = 60;
  enum class Kind : uint8_t { value, noise, noise_by_channel };
  BatchImages out;
  SampleRange samples;  // of `each`
  int64_t most_groups;
  struct Each {
    uint64_t key;
    float value[kMaxChannels];
    int32_t sample;  // of the batch
    int32_t left, top, width, height;
    Kind kind;
  } each[kMost];

  MILLRACE_BOTH static int64_t groups_of(const Each& box) {
    return (kMaxChannels * int64_t{box.width} * box.height + kGroupPixels - 1) / kGroupPixels;
  }
  MILLRACE_BOTH int64_t groups() const { return most_groups; }
  MILLRACE_BOTH void operator()(int32_t i, int64_t g) const {
    const Each& box = each[i];
    if (g >= groups_of(box)) return;
    const int64_t area = int64_t{box.width} * box.height, count = kMaxChannels * area;
    const auto put = [&](int64_t e, int32_t channel, float v) {
      const int64_t in_plane = e - channel * area, y = in_plane / box.width, x = in_plane - y * box.width;
      store_element(out.data, out.type,
                    out.element(box.sample, (box.top + y) * out.w + box.left + x, channel), v);
    };
    if (box.kind == Kind::noise) {
      for_normals(box.key, g, count,
                  [&](int64_t e, float normal) { put(e, static_cast<int32_t>(e / area), normal); });
      return;
    }
    const transforms::NormalNumbers normals = box.kind == Kind::noise_by_channel
                                                  ? transforms::normal_numbers(box.key, 0)
                                                  : transforms::NormalNumbers{};
    for (int64_t e = g * kGroupPixels; e < (g + 1) * kGroupPixels && e < count; ++e) {
      const auto channel = static_cast<int32_t>(e / area);
      put(e, channel, box.kind == Kind::value ? box.value[channel] : normals.v[channel]);
    }
  }
};

}  // namespace millrace::device
