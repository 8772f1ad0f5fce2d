#include "device/fused_augment.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "device/batch_ops.h"
#include "device/fused_kernels.h"
#include "device/step_batch.h"
#include "millrace/error.h"
#include "transforms/resample_taps.h"

namespace millrace::device {
namespace {

[[noreturn]] void refuse(size_t picture, const std::string& rule) {
  throw Error(ErrorKind::invalid_argument, "picture " + std::to_string(picture) + ": " + rule);
}

// Returns how many of the weights' fractional bits torch's resize of tensors lacks.
uint8_t lost_bits(const Augmentation& a, int32_t in_size, int32_t out_size) {
  return a.of_tensor ? static_cast<uint8_t>(
                           kFilterBits - transforms::tensor_weight_bits(a.interpolation, in_size, out_size))
                     : 0;
}

bool waits_for_mean(const Augmentation& a) {
  return std::find(a.jitter.order.begin(), a.jitter.order.end(), transforms::ColorOp::contrast) !=
         a.jitter.order.end();
}

// Returns the size of the fused kernel's result, along the axes of the stored picture.
transforms::PictureSize fused_size(const Augmentation& a, int32_t height, int32_t width) {
  const transforms::PictureSize size = a.steps.empty() ? transforms::PictureSize{width, height} : a.first;
  return a.transposed ? transforms::PictureSize{size.height, size.width} : size;
}

void check_size(size_t i, const Augmentation& a) {
  if (a.width <= 0 || a.height <= 0)
    refuse(i, "a crop cannot be resized to nothing; give a width and a height");
}

void check_numbers(size_t i, const Augmentation& a, const BatchImages& out) {
  if (const std::string problem = why_not_numbers(a.numbers, out); !problem.empty()) refuse(i, problem);
}

bool is_noisy_first(const Augmentation& a) { return a.numbers.noise && a.numbers.noise->before_normalize; }

void check_steps(size_t i, const Augmentation& a, int32_t height, int32_t width) {
  if (a.steps.empty()) return;
  if (const std::string problem = why_not_steps(a.first, a.steps, {width, height}); !problem.empty())
    refuse(i, problem);
  if (waits_for_mean(a) || a.grayscale) refuse(i, "colours come before the steps; make them steps, too");
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
  if (a.interpolation == Interpolation::nearest)
    refuse(i, "the resize is by a filter; make one to nearest pixels a step");
  const int64_t columns =
      int64_t{kTile} * r.width / a.width + 2 * int64_t{taps_of(r.width, a.width, a.interpolation)};
  if (columns * p.pixel_bytes + 30 > kMostStageBytes ||
      taps_of(r.height, a.height, a.interpolation) > UINT16_MAX)
    refuse(i, "a crop of " + std::to_string(r.height) + " x " + std::to_string(r.width) +
                  " pixels is too large to be resized to " + std::to_string(a.height) + " x " +
                  std::to_string(a.width) + " in one go; decode it at a smaller scale");
}

// How many pictures share the memory of a workspace at a time.
constexpr size_t kGroupSamples = 3 * kFusedSamples;

size_t table_entries(const Augmentation& a, transforms::PictureSize size) {
  return static_cast<size_t>(size.width) *
             (1 + static_cast<size_t>(taps_of(a.crop.width, a.width, a.interpolation))) +
         static_cast<size_t>(size.height) *
             (1 + static_cast<size_t>(taps_of(a.crop.height, a.height, a.interpolation)));
}

// The layout of the workspace for one group of pictures.
struct Layout {
  size_t table = 0, steps = 0, bytes = 0;  // the sums come first
  std::vector<size_t> waiting;             // start of each waiting picture; 0: it does not wait
  StepBatch batch;

  Layout(std::span<const Augmentation> group, size_t first, int32_t height, int32_t width) {
    const auto aligned = [](size_t n) { return (n + 15) / 16 * 16; };
    size_t end = aligned(group.size() * sizeof(int64_t));
    for (size_t i = 0; i < group.size(); ++i) {
      const bool waits = waits_for_mean(group[i]);
      waiting.push_back(waits ? end : 0);
      if (waits) end += aligned(static_cast<size_t>(height) * static_cast<size_t>(width) * sizeof(uint32_t));
      if (!group[i].steps.empty()) batch.add(static_cast<int32_t>(first + i), group[i].first, group[i].steps);
    }
    steps = end;
    table = steps + (batch.empty() ? 0 : batch.bytes());
    bytes = table;
    for (const Augmentation& a : group)
      bytes += table_entries(a, fused_size(a, height, width)) * sizeof(int32_t);
  }
};

FusedParams params_of(const DecodedPicture& picture, const Augmentation& a, const BatchImages& out,
                      size_t table_entry, uint32_t* made) {
  FusedParams p{};
  const transforms::PictureSize size = fused_size(a, out.h, out.w);
  p.picture = made;
  p.width = size.width, p.height = size.height;
  p.transposed = a.transposed;
  p.pixels =
      picture.pixels + int64_t{a.crop.top} * picture.pitch_bytes + int64_t{a.crop.left} * picture.pixel_bytes;
  p.pitch = picture.pitch_bytes;
  p.pixel_bytes = picture.pixel_bytes;
  p.in_width = a.crop.width, p.in_height = a.crop.height;
  p.resized_width = a.width, p.resized_height = a.height;
  p.left = a.left, p.top = a.top;
  p.filter = a.interpolation;
  // Pillow 13's rule for the upright picture, as in transforms/sample_plan.cpp.
  int64_t less_x = int64_t{a.crop.width} - a.width, less_y = int64_t{a.crop.height} - a.height;
  if (a.transposed) std::swap(less_x, less_y);
  p.vertical_first = (!a.of_tensor && less_y > 0 && less_y > 2 * less_x) != a.transposed;
  p.x_taps = static_cast<uint16_t>(taps_of(a.crop.width, a.width, p.filter));
  p.y_taps = static_cast<uint16_t>(taps_of(a.crop.height, a.height, p.filter));
  p.x_shift = lost_bits(a, a.crop.width, a.width), p.y_shift = lost_bits(a, a.crop.height, a.height);
  p.x_table = static_cast<int32_t>(table_entry);
  p.y_table = p.x_table + p.width * (1 + p.x_taps);
  p.input_flip_x = a.flip_input_x, p.input_flip_y = a.flip_input_y;
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

// Runs the pictures from number `first` of the batch on; `kernel` holds the values that all of them share.
void run_group(std::span<const DecodedPicture> pictures, std::span<const Augmentation> augmentations,
               size_t first, FusedKernel& kernel, uint8_t* memory, const Place& place) {
  const BatchImages& out = kernel.out;
  const Layout layout(augmentations, first, out.h, out.w);
  kernel.grey_sums = reinterpret_cast<int64_t*>(memory) - first;
  kernel.table = reinterpret_cast<int32_t*>(memory + layout.table);
  size_t with_steps = 0;
  for (size_t begin = 0; begin < pictures.size(); begin += kFusedSamples) {
    const size_t count = std::min<size_t>(kFusedSamples, pictures.size() - begin);
    kernel.samples = {static_cast<int32_t>(first + begin), static_cast<int32_t>(count)};
    kernel.most_width = kernel.most_height = 0;
    size_t entry = 0;  // of this chunk's table
    bool any_waits = false;
    for (size_t i = 0; i < count; ++i) {
      const Augmentation& a = augmentations[begin + i];
      uint32_t* made = nullptr;
      if (layout.waiting[begin + i] != 0)
        made = reinterpret_cast<uint32_t*>(memory + layout.waiting[begin + i]);
      else if (!a.steps.empty())
        made = layout.batch.picture(with_steps++, memory + layout.steps);
      FusedParams& p = kernel.params[i] = params_of(pictures[begin + i], a, out, entry, made);
      kernel.most_width = std::max(kernel.most_width, p.width);
      kernel.most_height = std::max(kernel.most_height, p.height);
      entry += table_entries(a, {p.width, p.height});
      any_waits = any_waits || p.waits_for_mean();
    }
    launch(WeightsKernel{kernel}, place);
    resample(kernel, place);
    if (any_waits) launch(FinishKernel{kernel}, place);
    kernel.table += entry;
  }
  StoreKernel store{};
  store.out = out;
  std::copy(kernel.scale, kernel.scale + kMaxChannels, store.scale);
  std::copy(kernel.shift, kernel.shift + kMaxChannels, store.shift);
  layout.batch.run(memory + layout.steps, store, place);
}

}  // namespace

size_t fused_workspace_bytes(std::span<const Augmentation> augmentations, int32_t height, int32_t width) {
  size_t bytes = 0;
  for (size_t i = 0; i < augmentations.size(); ++i) {
    check_size(i, augmentations[i]);
    check_steps(i, augmentations[i], height, width);
  }
  for (size_t first = 0; first < augmentations.size(); first += kGroupSamples) {
    const auto group = augmentations.subspan(first, std::min(kGroupSamples, augmentations.size() - first));
    bytes = std::max(bytes, Layout(group, first, height, width).bytes);
  }
  return bytes;
}

void fused_augment(std::span<const DecodedPicture> pictures, std::span<const Augmentation> augmentations,
                   std::span<const double> mean, std::span<const double> std, const BatchImages& out,
                   void* workspace, const Place& place) {
  if (out.c != 3 || static_cast<size_t>(out.n) != pictures.size() || pictures.size() != augmentations.size())
    throw Error(ErrorKind::invalid_argument,
                std::to_string(pictures.size()) + " pictures and " + std::to_string(augmentations.size()) +
                    " augmentations make a batch of as many pictures with 3 channels, not of " +
                    std::to_string(out.n) + " with " + std::to_string(out.c));
  const bool noisy_first = !augmentations.empty() && is_noisy_first(augmentations.front());
  std::vector<const FinishedNumbers*> numbers;
  for (size_t i = 0; i < pictures.size(); ++i) {
    check(i, pictures[i], augmentations[i]);
    check_steps(i, augmentations[i], out.h, out.w);
    check_numbers(i, augmentations[i], out);
    if (is_noisy_first(augmentations[i]) != noisy_first)
      refuse(i, "noise comes before values are normalised in all pictures or in none");
    numbers.push_back(&augmentations[i].numbers);
  }
  if (out.pixels() == 0) return;

  auto* memory = static_cast<uint8_t*>(workspace);
  FusedKernel kernel{};
  kernel.out = out;
  set_normalisation(mean, std, kernel);  // also checks mean and std
  if (noisy_first) set_normalisation({}, {}, kernel);
  for (size_t first = 0; first < pictures.size(); first += kGroupSamples) {
    const size_t count = std::min(kGroupSamples, pictures.size() - first);
    run_group(pictures.subspan(first, count), augmentations.subspan(first, count), first, kernel, memory,
              place);
  }
  run_numbers(numbers, mean, std, out, place);
}

}  // namespace millrace::device
