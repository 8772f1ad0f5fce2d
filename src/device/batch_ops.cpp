#include "device/batch_ops.h"

#include <algorithm>
#include <string>

#include "device/batch_kernels.h"
#include "device/box_kernels.h"
#include "millrace/error.h"

namespace millrace::device {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::invalid_argument, message); }

std::string shape_of(const BatchImages& b) {
  return "(" + std::to_string(b.n) + ", " + std::to_string(b.c) + ", " + std::to_string(b.h) + ", " +
         std::to_string(b.w) + ")";
}

void check(const BatchImages& b) {
  if (b.type != base::DType::u8 && b.type != base::DType::f16 && b.type != base::DType::bf16 &&
      b.type != base::DType::f32)
    refuse(std::string("images of ") + base::dtype_name(b.type) +
           " are not supported; convert them to uint8, float16, bfloat16 or float32");
  if ((b.c != 1 && b.c != 3) || b.n < 0 || b.h < 0 || b.w < 0)
    refuse("images must have the shape (n, c, h, w) with 1 or 3 channels, not " + shape_of(b));
}

void check_pair(const BatchImages& in, const BatchImages& out) {
  check(in);
  check(out);
  if (in.n != out.n || in.c != out.c || in.h != out.h || in.w != out.w)
    refuse("the result's shape " + shape_of(out) + " is not that of the images, " + shape_of(in));
}

void check_same_type(const BatchImages& in, const BatchImages& out) {
  check_pair(in, out);
  if (in.type != out.type)
    refuse(std::string("the result must have the images' dtype ") + base::dtype_name(in.type) + ", not " +
           base::dtype_name(out.type));
}

void check_count(const BatchImages& in, size_t count, const char* what) {
  if (count != static_cast<size_t>(in.n))
    refuse(std::to_string(count) + " " + what + " were given for " + std::to_string(in.n) +
           " images; give one for each");
}

// One value for all channels, or one for each.
void spread(std::span<const double> values, const BatchImages& in, const char* what, float* channels) {
  if (values.size() != 1 && values.size() != static_cast<size_t>(in.c))
    refuse(std::string(what) + " has " + std::to_string(values.size()) + " values for images of " +
           std::to_string(in.c) + " channels; give one, or one for each channel");
  for (int c = 0; c < in.c; ++c)
    channels[c] = static_cast<float>(values[values.size() == 1 ? 0 : static_cast<size_t>(c)]);
}

// run(kernel) for each chunk of the batch; set(kernel, i, sample) fills in the parameters of its i-th sample.
template <class Kernel, class Set, class Run>
void for_chunks(Kernel& kernel, const BatchImages& in, const BatchImages& out, Set&& set, Run&& run) {
  kernel.in = in;
  kernel.out = out;
  if (in.pixels() == 0) return;
  for (int64_t first = 0; first < in.n; first += kChunkSamples) {
    kernel.samples = {static_cast<int32_t>(first),
                      static_cast<int32_t>(std::min<int64_t>(kChunkSamples, in.n - first))};
    for (int32_t i = 0; i < kernel.samples.count; ++i) set(kernel, i, static_cast<size_t>(first + i));
    run(kernel);
  }
}

KernelBox kernel_box(const base::Rect& r, const BatchImages& in) {
  if (r.width <= 0 || r.height <= 0) return {};
  return {std::max(r.left, 0), std::max(r.top, 0),
          static_cast<int32_t>(std::min<int64_t>(int64_t{r.left} + r.width, in.w)),
          static_cast<int32_t>(std::min<int64_t>(int64_t{r.top} + r.height, in.h))};
}

}  // namespace

void normalize(const BatchImages& in, const BatchImages& out, std::span<const double> mean,
               std::span<const double> std, const Place& place) {
  check_pair(in, out);
  if (out.type == base::DType::u8)
    refuse("normalised images cannot be uint8; ask for float16, bfloat16 or float32");
  NormalizeKernel kernel{};
  float means[kMaxChannels], stds[kMaxChannels];
  spread(mean, in, "mean", means);
  spread(std, in, "std", stds);
  for (int c = 0; c < in.c; ++c) {
    if (stds[c] == 0)
      refuse("std is zero for channel " + std::to_string(c) +
             ", and nothing can be divided by it; use a larger std");
    const double m = mean[mean.size() == 1 ? 0 : static_cast<size_t>(c)],
                 s = std[std.size() == 1 ? 0 : static_cast<size_t>(c)];
    kernel.scale[c] = static_cast<float>(1 / (s * (in.type == base::DType::u8 ? 255.0 : 1.0)));
    kernel.shift[c] = static_cast<float>(-m / s);
  }
  for_chunks(kernel, in, out, [](auto&, int32_t, size_t) {}, [&](const auto& k) { launch(k, place); });
}

void flip_horizontal(const BatchImages& in, const BatchImages& out, std::span<const uint8_t> flipped,
                     const Place& place) {
  check_same_type(in, out);
  check_count(in, flipped.size(), "decisions to flip");
  FlipKernel kernel{};
  for_chunks(
      kernel, in, out, [&](auto& k, int32_t i, size_t s) { k.flipped[i] = flipped[s] != 0; },
      [&](const auto& k) { launch(k, place); });
}

void affine(const BatchImages& in, const BatchImages& out, std::span<const transforms::InverseAffine> inverse,
            bool bilinear, std::span<const double> fill, const Place& place) {
  check_same_type(in, out);
  check_count(in, inverse.size(), "affine maps");
  AffineKernel kernel{};
  kernel.bilinear = bilinear;
  spread(fill, in, "fill", kernel.fill);
  const auto set = [&](auto& k, int32_t i, size_t s) {
    for (int m = 0; m < 6; ++m) k.inverse[i].m[m] = static_cast<float>(inverse[s][static_cast<size_t>(m)]);
  };
  for_chunks(kernel, in, out, set, [&](const auto& k) { launch(k, place); });
}

JitterParams jitter_params(const transforms::ColorJitterParams& p) {
  JitterParams out;
  for (size_t i = 0; i < 4; ++i) out.order[i] = static_cast<uint8_t>(p.order[i]);
  const double factors[] = {p.brightness, p.contrast, p.saturation, p.hue};
  for (int i = 0; i < 4; ++i) out.factor[i] = static_cast<float>(factors[i]);
  if (!(p.brightness >= 0 && p.contrast >= 0 && p.saturation >= 0 && p.hue >= -0.5 && p.hue <= 0.5))
    refuse("colour factors (brightness " + std::to_string(p.brightness) + ", contrast " +
           std::to_string(p.contrast) + ", saturation " + std::to_string(p.saturation) + ", hue " +
           std::to_string(p.hue) + ") must not be negative, and hue must be in -0.5..0.5");
  return out;
}

void color_jitter(const BatchImages& in, const BatchImages& out,
                  std::span<const transforms::ColorJitterParams> jitter, std::span<const uint8_t> to_grey,
                  int64_t* grey_sums, const Place& place) {
  check_same_type(in, out);
  check_count(in, jitter.size(), "colour jitters");
  check_count(in, to_grey.size(), "decisions to make grey");
  ColorKernel kernel{};
  kernel.grey_sums = grey_sums;
  const auto set = [&](auto& k, int32_t i, size_t s) {
    k.jitter[i] = jitter_params(jitter[s]);
    k.to_grey[i] = to_grey[s] != 0;
  };
  for_chunks(kernel, in, out, set, [&](const auto& k) {
    const auto contrast = [](const JitterParams& p) { return has_op(p, JitterParams::contrast); };
    if (std::any_of(k.jitter, k.jitter + k.samples.count, contrast)) add_grey_sums(k, place);
    launch(k, place);
  });
}

void erase(const BatchImages& in, const BatchImages& out, std::span<const base::Rect> boxes,
           std::span<const double> value, uint64_t seed, const Place& place) {
  check_same_type(in, out);
  check_count(in, boxes.size(), "boxes");
  EraseKernel kernel{};
  kernel.noise = value.empty();
  kernel.seed = seed;
  if (kernel.noise && in.type == base::DType::u8)
    refuse("normal noise does not fit uint8 images; normalise them first, or erase with a value");
  if (!kernel.noise) spread(value, in, "value", kernel.value);
  for (const float v : kernel.value)
    if (in.type == base::DType::u8 && !(v >= 0 && v <= 255))
      refuse("uint8 images are erased with values of 0 to 255, not " + std::to_string(v));
  for_chunks(
      kernel, in, out, [&](auto& k, int32_t i, size_t s) { k.box[i] = kernel_box(boxes[s], in); },
      [&](const auto& k) { launch(k, place); });
}

void mix(const BatchImages& in, const BatchImages& out, std::span<const MixParams> mix, const Place& place) {
  check_same_type(in, out);
  check_count(in, mix.size(), "mixtures");
  MixKernel kernel{};
  const auto set = [&](auto& k, int32_t i, size_t s) {
    const MixParams& p = mix[s];
    if (p.partner < 0 || p.partner >= in.n)
      refuse("partner " + std::to_string(p.partner) + " is none of the " + std::to_string(in.n) + " images");
    if (!(p.share >= 0 && p.share <= 1)) refuse("a share must be in 0..1, not " + std::to_string(p.share));
    if (p.share != 1 && in.type == base::DType::u8)
      refuse("uint8 images cannot be mixed by shares; normalise them first");
    k.mix[i] = {static_cast<int32_t>(p.partner), static_cast<float>(p.share), kernel_box(p.box, in)};
  };
  for_chunks(kernel, in, out, set, [&](const auto& k) { launch(k, place); });
}

}  // namespace millrace::device
