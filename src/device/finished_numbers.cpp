#include "device/finished_numbers.h"

#include <algorithm>

#include "device/number_kernels.h"

namespace millrace::device {
namespace {

using Numbers = std::span<const FinishedNumbers* const>;

NoiseKernel noise_kernel(const FinishedNumbers::Noise& noise, std::span<const double> mean,
                         std::span<const double> std, const BatchImages& out) {
  NoiseKernel kernel{};
  kernel.out = out;
  kernel.mean = noise.mean, kernel.sigma = noise.sigma;
  kernel.clip = noise.clip, kernel.divides = noise.divides && noise.before_normalize;
  kernel.normalizes = noise.before_normalize && !mean.empty();
  for (size_t c = 0; kernel.normalizes && c < kMaxChannels; ++c)
    kernel.to_subtract[c] = static_cast<float>(mean[c]), kernel.to_divide_by[c] = static_cast<float>(std[c]);
  return kernel;
}

bool alike(const FinishedNumbers::Noise& a, const FinishedNumbers::Noise& b) {
  return a.mean == b.mean && a.sigma == b.sigma && a.clip == b.clip && a.divides == b.divides &&
         a.before_normalize == b.before_normalize;
}

// Consecutive pictures share a launch if their noises differ only in the key.
void add_noises(Numbers numbers, std::span<const double> mean, std::span<const double> std,
                const BatchImages& out, const Place& place) {
  for (size_t i = 0; i < numbers.size();) {
    if (!numbers[i]->noise) {
      ++i;
      continue;
    }
    const FinishedNumbers::Noise& first = *numbers[i]->noise;
    NoiseKernel kernel = noise_kernel(first, mean, std, out);
    for (; i < numbers.size() && kernel.samples.count < NoiseKernel::kMost; ++i) {
      const auto& noise = numbers[i]->noise;
      if (!noise || !alike(*noise, first)) break;
      kernel.each[kernel.samples.count++] = {noise->key, static_cast<int32_t>(i)};
    }
    launch(kernel, place);
  }
}

EraseBoxKernel::Each each_of(const FinishedNumbers::Box& from, size_t sample) {
  using Kind = EraseBoxKernel::Kind;
  EraseBoxKernel::Each box{};
  box.key = from.key;
  std::copy(from.value.begin(), from.value.end(), box.value);
  box.sample = static_cast<int32_t>(sample);
  box.left = from.box.left, box.top = from.box.top;
  box.width = from.box.width, box.height = from.box.height;
  box.kind = !from.value.empty() ? Kind::value : from.per_channel ? Kind::noise_by_channel : Kind::noise;
  return box;
}

// Erases the first rectangles of all pictures, then the second ones, and so on.
void erase_boxes(Numbers numbers, const BatchImages& out, const Place& place) {
  size_t rounds = 0;
  for (const FinishedNumbers* each : numbers) rounds = std::max(rounds, each->boxes.size());
  EraseBoxKernel kernel{};
  kernel.out = out;
  const auto run = [&] {
    if (kernel.samples.count > 0) launch(kernel, place);
    kernel.samples.count = 0;
    kernel.most_groups = 0;
  };
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (round >= numbers[i]->boxes.size()) continue;
      const auto& box = kernel.each[kernel.samples.count++] = each_of(numbers[i]->boxes[round], i);
      kernel.most_groups = std::max(kernel.most_groups, EraseBoxKernel::groups_of(box));
      if (kernel.samples.count == EraseBoxKernel::kMost) run();
    }
    run();
  }
}

}  // namespace

FinishedNumbers finished_numbers(const transforms::NumberSteps& steps, const transforms::Chain& chain) {
  FinishedNumbers made;
  if (const GaussianNoise* spec = steps.noise.spec)
    made.noise = {static_cast<float>(spec->mean), static_cast<float>(spec->sigma),       spec->clip,
                  !chain.to_tensor.multiply,      chain.noise_first || !chain.normalize, steps.noise.key};
  for (const transforms::Erasure& erasure : steps.erasures) {
    FinishedNumbers::Box& box = made.boxes.emplace_back();
    box.box = erasure.box;
    const std::vector<double>& value = erasure.spec->value;
    for (size_t c = 0; !value.empty() && c < kMaxChannels; ++c)
      box.value.push_back(static_cast<float>(value[value.size() == 1 ? 0 : c]));
    box.per_channel = erasure.spec->per_channel;
    box.key = erasure.noise;
  }
  return made;
}

std::string why_not_numbers(const FinishedNumbers& numbers, const BatchImages& out) {
  if (numbers.noise && out.type != base::DType::f32) return "noise is added to numbers of float32";
  if (!numbers.boxes.empty() && out.type == base::DType::u8) return "rectangles are erased of floats";
  for (const FinishedNumbers::Box& each : numbers.boxes) {
    const base::Rect& r = each.box;
    if (r.left < 0 || r.top < 0 || r.width <= 0 || r.height <= 0 || r.width > out.w - r.left ||
        r.height > out.h - r.top)
      return "a rectangle to erase does not lie inside its picture";
    if (!each.value.empty() && each.value.size() != kMaxChannels)
      return "a rectangle has three values or none";
  }
  return "";
}

void run_numbers(Numbers numbers, std::span<const double> mean, std::span<const double> std,
                 const BatchImages& out, const Place& place) {
  add_noises(numbers, mean, std, out, place);
  erase_boxes(numbers, out, place);
}

}  // namespace millrace::device
