#include "transforms/draws.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "base/philox.h"
#include "millrace/error.h"
#include "transforms/affine_matrix.h"
#include "transforms/geometry_draws.h"
#include "transforms/policy_draws.h"

namespace millrace::transforms {
namespace {

double uniform(base::Philox& random, const Range& range) { return random.uniform(range.min, range.max); }

// torchvision's RandomResizedCrop.get_params.
base::Rect draw_resized_crop(const RandomResizedCrop& t, PictureSize in, base::Philox& random) {
  const double area = static_cast<double>(in.width) * in.height;
  const double log_min = std::log(t.ratio_min), log_max = std::log(t.ratio_max);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(t.scale_min, t.scale_max);
    const double ratio = std::exp(random.uniform(log_min, log_max));
    const double w = std::nearbyint(std::sqrt(target * ratio)), h = std::nearbyint(std::sqrt(target / ratio));
    if (w < 1 || w > in.width || h < 1 || h > in.height) continue;
    base::Rect box{0, 0, static_cast<int32_t>(w), static_cast<int32_t>(h)};
    box.top = static_cast<int32_t>(random.integer(0, in.height - box.height + 1));
    box.left = static_cast<int32_t>(random.integer(0, in.width - box.width + 1));
    return box;
  }
  // No luck: the largest central box of an allowed ratio. Its short side is at least one pixel, where
  // torchvision would fail.
  base::Rect box{0, 0, in.width, in.height};
  const double ratio = static_cast<double>(in.width) / in.height;
  if (ratio < t.ratio_min)
    box.height = std::clamp(round_half_even(in.width / t.ratio_min), 1, in.height);
  else if (ratio > t.ratio_max)
    box.width = std::clamp(round_half_even(in.height * t.ratio_max), 1, in.width);
  box.top = (in.height - box.height) / 2;
  box.left = (in.width - box.width) / 2;
  return box;
}

// torchvision's RandomCrop.get_params, on the padded picture.
base::Rect draw_crop(const RandomCrop& t, PictureSize in, base::Philox random) {
  const PictureSize full = padded(in, padding_of(t, in));
  if (full.height < t.height || full.width < t.width)
    throw Error(ErrorKind::invalid_argument, "Required crop size " + text({t.width, t.height}) +
                                                 " is larger than input image size " + text(full) +
                                                 "; use a smaller size, padding, or pad_if_needed");
  base::Rect box{0, 0, t.width, t.height};
  if (full.height > t.height) box.top = static_cast<int32_t>(random.integer(0, full.height - t.height + 1));
  if (full.width > t.width) box.left = static_cast<int32_t>(random.integer(0, full.width - t.width + 1));
  return box;
}

// A factor for each property that is asked for, and these in a random order: torchvision's order of all four,
// with gaps closed.
ColorJitterParams draw_colors(const ColorJitter& t, base::Philox random) {
  ColorJitterParams color;
  int count = 0;
  const auto draw = [&](ColorOp op, const std::optional<Range>& range, double& factor) {
    if (!range) return;
    factor = uniform(random, *range);
    color.order[count++] = op;
  };
  draw(ColorOp::brightness, t.brightness, color.brightness);
  draw(ColorOp::contrast, t.contrast, color.contrast);
  draw(ColorOp::saturation, t.saturation, color.saturation);
  draw(ColorOp::hue, t.hue, color.hue);
  for (int i = count - 1; i > 0; --i) std::swap(color.order[i], color.order[random.integer(0, i + 1)]);
  return color;
}

AffineParams draw_affine(const RandomAffine& t, PictureSize in, base::Philox random) {
  AffineParams affine;
  affine.angle = uniform(random, t.degrees);
  if (t.translate) {
    const double most_x = (*t.translate)[0] * in.width, most_y = (*t.translate)[1] * in.height;
    affine.translate_x = round_half_even(random.uniform(-most_x, most_x));
    affine.translate_y = round_half_even(random.uniform(-most_y, most_y));
  }
  if (t.scale) affine.scale = uniform(random, *t.scale);
  affine.shear_x = uniform(random, t.shear_x);
  affine.shear_y = uniform(random, t.shear_y);
  return affine;
}

void require_room_for_blur(const GaussianBlur& t, PictureSize in) {
  if (t.kernel_width / 2 >= in.width || t.kernel_height / 2 >= in.height)
    throw Error(ErrorKind::invalid_argument,
                "GaussianBlur: Padding size should be less than the corresponding input dimension, but the "
                "kernel of " +
                    text({t.kernel_width, t.kernel_height}) + " reaches over a picture of " + text(in) +
                    " (height, width); use a smaller kernel_size or resize first");
}

// A factor for each property that is drawn, in torchvision's order.
void draw_distortion(const PhotometricDistort& t, base::Philox random, OpParams& decided) {
  const auto happens = [&] { return random.uniform() < t.p; };
  ColorJitterParams& color = decided.color;
  const bool brightness = happens();
  if (brightness) color.brightness = uniform(random, t.brightness);
  const bool contrast = happens();
  if (contrast) color.contrast = uniform(random, t.contrast);
  const bool saturation = happens();
  if (saturation) color.saturation = uniform(random, t.saturation);
  const bool hue = happens();
  if (hue) color.hue = uniform(random, t.hue);
  const bool contrast_first = random.uniform() < 0.5;
  size_t count = 0;
  const auto add = [&](ColorOp op, bool wanted) {
    if (wanted) color.order[count++] = op;
  };
  add(ColorOp::brightness, brightness);
  add(ColorOp::contrast, contrast && contrast_first);
  add(ColorOp::saturation, saturation);
  add(ColorOp::hue, hue);
  add(ColorOp::contrast, contrast && !contrast_first);
  decided.applied = happens();  // of the channels
  if (!decided.applied) return;
  std::array<uint8_t, 3> from{0, 1, 2};
  for (int i = 2; i > 0; --i) std::swap(from[i], from[random.integer(0, i + 1)]);
  decided.permutation = static_cast<uint8_t>(from[0] | from[1] << 2 | from[2] << 4);
}

// A stream of its own for each step of each view, of which a chain has less than 2^16.
base::Philox stream_of(const base::SampleKey& key, uint32_t view, uint32_t op) {
  return base::Philox(key, view << 16 | op);
}

struct Drawer {
  const PictureStep& step;
  PictureSize in;
  int orientation;
  const base::SampleKey& key;
  uint32_t view;
  std::vector<OpParams>& out;

  base::Philox random() const { return stream_of(key, view, step.op); }
  OpParams& decide(OpParams::Kind kind) const {
    OpParams& decided = out.emplace_back();
    decided.kind = kind;
    decided.op = step.op;
    return decided;
  }
  void decide_if(OpParams::Kind kind, double p) const { decide(kind).applied = random().uniform() < p; }

  void operator()(const RandomResizedCrop& t) const {
    OpParams& decided = decide(OpParams::Kind::resized_crop);
    base::Philox draws = random();
    decided.box = draw_resized_crop(t, in, draws);
    decided.interpolation = t.interpolation;
    if (!t.interpolations.empty())
      decided.interpolation =
          t.interpolations[static_cast<size_t>(draws.integer(0, std::ssize(t.interpolations)))];
  }
  void operator()(const RandomCrop& t) const {
    decide(OpParams::Kind::crop).box = draw_crop(t, in, random());
  }
  void operator()(const Frame& t) const {
    if (!decides(t)) return;
    OpParams& decided = decide(OpParams::Kind::frame);
    base::Philox draws = random();
    decided.applied = applies(t.p, draws);
    if (decided.applied) decided.box = draw_frame(t, in, draws);
  }
  void operator()(const DrawnResize& t) const {
    OpParams& decided = decide(OpParams::Kind::resize);
    base::Philox draws = random();
    draw_resize(t, in, draws, decided);
  }
  void operator()(const RandomPerspective& t) const {
    OpParams& decided = decide(OpParams::Kind::perspective);
    base::Philox draws = random();
    decided.applied = applies(t.p, draws);
    if (decided.applied) decided.perspective = draw_perspective(t, in, draws);
  }
  void operator()(const HorizontalFlip& t) const { decide_if(OpParams::Kind::flip_horizontal, t.p); }
  void operator()(const VerticalFlip& t) const { decide_if(OpParams::Kind::flip_vertical, t.p); }
  void operator()(const ExifTranspose&) const {
    decide(OpParams::Kind::orientation).orientation = orientation;
  }
  // What is certain draws nothing.
  static bool applies(double p, base::Philox& random) { return p >= 1 || random.uniform() < p; }
  void operator()(const ColorJitter& t) const {
    OpParams& decided = decide(OpParams::Kind::color_jitter);
    base::Philox draws = random();
    decided.applied = applies(t.p, draws);
    if (decided.applied) decided.color = draw_colors(t, draws);
  }
  void operator()(const PhotometricDistort& t) const {
    draw_distortion(t, random(), decide(OpParams::Kind::distort));
  }
  void operator()(const RandomGrayscale& t) const { decide_if(OpParams::Kind::grayscale, t.p); }
  void operator()(const RandomRotation& t) const {
    OpParams& decided = decide(OpParams::Kind::affine);
    decided.affine.rotation = true;
    decided.affine.angle = random().uniform(t.degrees.min, t.degrees.max);
    decided.inverse = rotation_inverse(decided.affine.angle, t.center, in);
  }
  void operator()(const RandomAffine& t) const {
    OpParams& decided = decide(OpParams::Kind::affine);
    decided.affine = draw_affine(t, in, random());
    decided.inverse = affine_inverse(decided.affine, t.center, in);
  }
  void operator()(const GaussianBlur& t) const {
    OpParams& decided = decide(OpParams::Kind::blur);
    base::Philox draws = random();
    decided.applied = applies(t.p, draws);
    if (!decided.applied) return;
    require_room_for_blur(t, in);
    decided.sigma = draws.uniform(t.sigma.min, t.sigma.max);
  }
  void operator()(const AugmentPolicy& t) const {
    base::Philox draws = random();
    decide(OpParams::Kind::policy).steps = draw_policy(t, t.count, in, draws);
  }
  void operator()(const AugMix& t) const {
    base::Philox draws = random();
    decide(OpParams::Kind::mix).mix = draw_mix(t, in, draws);
  }
  void operator()(const Choice& t) const {
    const double sum = std::accumulate(t.weights.begin(), t.weights.end(), 0.0);
    double left = random().uniform() * sum;
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < t.weights.size(); ++i) {
      if (t.weights[i] == 0) continue;
      chosen = i;
      if (left < t.weights[i]) break;
      left -= t.weights[i];
    }
    decide(OpParams::Kind::choice).chosen = chosen;
  }
  void operator()(const Resize&) const {}
  void operator()(const CenterCrop&) const {}
  void operator()(const Grayscale&) const {}
  void operator()(const Crop&) const {}
  void operator()(const BoxResize&) const {}
  void operator()(const PointTable&) const {}
};

uint64_t draw_noise_key(base::Philox& random) {
  const uint64_t high = random.next_u32();
  return high << 32 | random.next_u32();
}

// Up to ten rectangles are drawn, the first that is smaller than the picture both ways is erased.
void draw_rectangle(const RandomErasing& t, PictureSize in, int64_t count, base::Philox& random,
                    OpParams& decided) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double whole = static_cast<double>(in.width) * in.height;
    const double area = whole * uniform(random, t.scale) / static_cast<double>(count);
    const double ratio = std::exp(random.uniform(std::log(t.ratio.min), std::log(t.ratio.max)));
    const double h = std::nearbyint(std::sqrt(area * ratio)), w = std::nearbyint(std::sqrt(area / ratio));
    if (h >= in.height || w >= in.width) continue;
    const auto height = static_cast<int32_t>(h), width = static_cast<int32_t>(w);
    const auto top = static_cast<int32_t>(random.integer(0, in.height - height + 1));
    const auto left = static_cast<int32_t>(random.integer(0, in.width - width + 1));
    const base::Rect box{left, top, width, height};
    if (decided.applied)
      decided.more_boxes.push_back(box);
    else
      decided.box = box;
    decided.applied = true;
    return;
  }
}

// torchvision's RandomErasing, and timm's, which may erase several rectangles.
OpParams draw_erase(const EraseStep& step, PictureSize in, base::Philox random) {
  const RandomErasing& t = step.spec;
  OpParams decided;
  decided.kind = OpParams::Kind::erase;
  decided.op = step.op;
  if (random.uniform() >= t.p) return decided;
  int64_t count = t.count_min;
  if (t.count_max > t.count_min) count = random.integer(t.count_min, int64_t{t.count_max} + 1);
  for (int64_t i = 0; i < count; ++i) draw_rectangle(t, in, count, random, decided);
  if (t.value.empty()) decided.noise = draw_noise_key(random);
  return decided;
}

OpParams draw_noise(const NoiseStep& step, base::Philox random) {
  OpParams decided;
  decided.kind = OpParams::Kind::noise;
  decided.op = step.op;
  decided.noise = draw_noise_key(random);
  return decided;
}

PictureSize draw_steps(const std::vector<PictureStep>& steps, PictureSize size, int orientation,
                       const base::SampleKey& key, uint32_t view, std::vector<OpParams>& out) {
  for (const PictureStep& step : steps) {
    const size_t before = out.size();
    std::visit(Drawer{step, size, orientation, key, view, out}, step.spec);
    if (const Choice* choice = std::get_if<Choice>(&step.spec))
      size = draw_steps(choice->branches->lists[out.back().chosen], size, orientation, key, view, out);
    else
      size = size_after(step, size, out.size() > before ? &out.back() : nullptr);
  }
  return size;
}

}  // namespace

SampleParams draw_params(const Chain& chain, PictureSize stored, int orientation, const base::SampleKey& key,
                         uint32_t view) {
  SampleParams params;
  params.ops.reserve(chain.steps.size() + chain.erasing.size() + 1);
  const PictureSize size = draw_steps(chain.steps, stored, orientation, key, view, params.ops);
  if (chain.noise) params.ops.push_back(draw_noise(*chain.noise, stream_of(key, view, chain.noise->op)));
  for (const EraseStep& step : chain.erasing)
    params.ops.push_back(draw_erase(step, size, stream_of(key, view, step.op)));
  return params;
}

}  // namespace millrace::transforms
