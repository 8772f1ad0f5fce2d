#include "device/fused_augment.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "device/batch_ops.h"
#include "device/fused_kernels.h"
#include "millrace/error.h"
#include "transforms/resample_taps.h"

namespace millrace::device {
namespace {

[[noreturn]] void refuse(size_t picture, const std::string& rule) {
  throw Error(ErrorKind::invalid_argument, "picture " + std::to_string(picture) + ": " + rule);
}

bool is_cubic(const Augmentation& a) { return a.interpolation == Interpolation::bicubic; }

// Of the weights' fractional bits, those that torch's resize of tensors does not have.
uint8_t lost_bits(const Augmentation& a, int32_t in_size, int32_t out_size) {
  return a.of_tensor ? static_cast<uint8_t>(
                           kFilterBits - transforms::tensor_weight_bits(a.interpolation, in_size, out_size))
                     : 0;
}

bool waits_for_mean(const Augmentation& a) {
  return std::find(a.jitter.order.begin(), a.jitter.order.end(), transforms::ColorOp::contrast) !=
         a.jitter.order.end();
}

void check_size(size_t i, const Augmentation& a) {
  if (a.width <= 0 || a.height <= 0)
    refuse(i, "a crop cannot be resized to nothing; give a width and a height");
}

void check(size_t i, const DecodedPicture& p, const Augmentation& a) {
  const base::Rect& r = a.crop;
  if (p.pixel_bytes != 3 && p.pixel_bytes != 4)
    refuse(i, "a pixel has 3 or 4 bytes, not " + std::to_string(p.pixel_bytes));
  if (int64_t{p.pitch_bytes} < int64_t{p.width} * p.pixel_bytes)
    refuse(i, "rows of " + std::to_string(p.width) + " pixels cannot be " + std::to_string(p.pitch_bytes) +
                  " bytes apart");
  if (r.left < 0 || r.top < 0 || r.width <= 0 || r.height <= 0 || r.width > p.width - r.left ||
      r.height > p.height - r.top)
    refuse(i, "the crop does not lie inside its " + std::to_string(p.height) + " x " +
                  std::to_string(p.width) + " pixels (height x width); draw it for this picture");
  check_size(i, a);
  if (a.interpolation != Interpolation::bilinear && a.interpolation != Interpolation::bicubic)
    refuse(i, "the resize is bilinear or bicubic; resize in other ways on the CPU");
  const int64_t columns =
      int64_t{kTile} * r.width / a.width + 2 * int64_t{taps_of(r.width, a.width, is_cubic(a))};
  if (columns * p.pixel_bytes + 30 > kMostStageBytes || taps_of(r.height, a.height, is_cubic(a)) > UINT16_MAX)
    refuse(i, "a crop of " + std::to_string(r.height) + " x " + std::to_string(r.width) +
                  " pixels is too large to be resized to " + std::to_string(a.height) + " x " +
                  std::to_string(a.width) + " in one go; decode it at a smaller scale");
}

// What lies where in the workspace. The table comes last: its size is known when all samples are.
struct Workspace {
  size_t sums = 0, resized = 0, table = 0, bytes = 0;

  Workspace(std::span<const Augmentation> all, int32_t height, int32_t width) {
    const auto aligned = [](size_t n) { return (n + 15) / 16 * 16; };
    const bool any = std::any_of(all.begin(), all.end(), waits_for_mean);
    resized = aligned(all.size() * sizeof(int64_t));
    table = resized + (any ? aligned(all.size() * static_cast<size_t>(height) * static_cast<size_t>(width) *
                                     sizeof(uint32_t))
                           : 0);
    bytes = table;
    for (const Augmentation& a : all) bytes += table_entries(a, height, width) * sizeof(int32_t);
  }

  static size_t table_entries(const Augmentation& a, int32_t height, int32_t width) {
    return static_cast<size_t>(width) *
               (1 + static_cast<size_t>(taps_of(a.crop.width, a.width, is_cubic(a)))) +
           static_cast<size_t>(height) *
               (1 + static_cast<size_t>(taps_of(a.crop.height, a.height, is_cubic(a))));
  }
};

FusedParams params_of(const DecodedPicture& picture, const Augmentation& a, const BatchImages& out,
                      size_t table_entry) {
  FusedParams p{};
  p.pixels =
      picture.pixels + int64_t{a.crop.top} * picture.pitch_bytes + int64_t{a.crop.left} * picture.pixel_bytes;
  p.pitch = picture.pitch_bytes;
  p.pixel_bytes = picture.pixel_bytes;
  p.in_width = a.crop.width, p.in_height = a.crop.height;
  p.resized_width = a.width, p.resized_height = a.height;
  p.left = a.left, p.top = a.top;
  p.cubic = is_cubic(a);
  // Pillow 13's rule; as in transforms/sample_plan.cpp.
  p.vertical_first =
      a.height < a.crop.height && int64_t{a.crop.height} - a.height > 2 * (int64_t{a.crop.width} - a.width);
  if (a.of_tensor) p.vertical_first = false;
  p.x_taps = static_cast<uint16_t>(taps_of(a.crop.width, a.width, p.cubic));
  p.y_taps = static_cast<uint16_t>(taps_of(a.crop.height, a.height, p.cubic));
  p.x_shift = lost_bits(a, a.crop.width, a.width), p.y_shift = lost_bits(a, a.crop.height, a.height);
  p.x_table = static_cast<int32_t>(table_entry);
  p.y_table = p.x_table + out.w * (1 + p.x_taps);
  p.flip_x = a.flip_horizontal, p.flip_y = a.flip_vertical, p.to_grey = a.grayscale;
  p.jitter = jitter_params(a.jitter);
  p.jitter.factor[JitterParams::hue] =
      static_cast<float>(std::trunc(a.jitter.hue * 255));  // as torchvision does for Pillow
  return p;
}

void set_normalisation(std::span<const double> mean, std::span<const double> std, FusedKernel& kernel) {
  const bool bytes = kernel.out.type == base::DType::u8;
  if (mean.size() != std.size() || (!mean.empty() && mean.size() != kMaxChannels) || (bytes && !mean.empty()))
    throw Error(ErrorKind::invalid_argument,
                "mean and std have " + std::to_string(mean.size()) + " and " + std::to_string(std.size()) +
                    " values; give both three, or none, and none for a uint8 result");
  for (size_t c = 0; c < kMaxChannels; ++c) {
    const double m = mean.empty() ? 0 : mean[c], s = std.empty() ? 1 : std[c];
    if (s == 0)
      throw Error(ErrorKind::invalid_argument,
                  "std is zero, and nothing can be divided by it; use a larger std");
    kernel.scale[c] = bytes ? 1 : static_cast<float>(1 / (255 * s));
    kernel.shift[c] = bytes ? 0 : static_cast<float>(-m / s);
  }
}

}  // namespace

size_t fused_workspace_bytes(std::span<const Augmentation> augmentations, int32_t height, int32_t width) {
  for (size_t i = 0; i < augmentations.size(); ++i) check_size(i, augmentations[i]);
  return Workspace(augmentations, height, width).bytes;
}

void fused_augment(std::span<const DecodedPicture> pictures, std::span<const Augmentation> augmentations,
                   std::span<const double> mean, std::span<const double> std, const BatchImages& out,
                   void* workspace, const Place& place) {
  if (out.c != 3 || static_cast<size_t>(out.n) != pictures.size() || pictures.size() != augmentations.size())
    throw Error(ErrorKind::invalid_argument,
                std::to_string(pictures.size()) + " pictures and " + std::to_string(augmentations.size()) +
                    " augmentations make a batch of as many pictures with 3 channels, not of " +
                    std::to_string(out.n) + " with " + std::to_string(out.c));
  for (size_t i = 0; i < pictures.size(); ++i) check(i, pictures[i], augmentations[i]);
  if (out.pixels() == 0) return;

  const Workspace layout(augmentations, out.h, out.w);
  auto* memory = static_cast<uint8_t*>(workspace);
  FusedKernel kernel{};
  kernel.out = out;
  set_normalisation(mean, std, kernel);
  kernel.grey_sums = reinterpret_cast<int64_t*>(memory + layout.sums);
  kernel.resized = reinterpret_cast<uint32_t*>(memory + layout.resized);
  kernel.table = reinterpret_cast<int32_t*>(memory + layout.table);
  for (size_t first = 0; first < pictures.size(); first += kFusedSamples) {
    const size_t count = std::min<size_t>(kFusedSamples, pictures.size() - first);
    kernel.samples = {static_cast<int32_t>(first), static_cast<int32_t>(count)};
    size_t entry = 0;  // of this chunk's table
    bool any_waits = false;
    for (size_t i = 0; i < count; ++i) {
      kernel.params[i] = params_of(pictures[first + i], augmentations[first + i], out, entry);
      entry += Workspace::table_entries(augmentations[first + i], out.h, out.w);
      any_waits = any_waits || kernel.params[i].waits_for_mean();
    }
    launch(WeightsKernel{kernel}, place);
    resample(kernel, place);
    if (any_waits) launch(FinishKernel{kernel}, place);
    kernel.table += entry;
  }
}

}  // namespace millrace::device
