// FinishedNumbers: the decided changes to one picture's numbers in the batch: noise, then rectangles. Plain
// values; run_numbers() applies them to the pictures of a batch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/geometry.h"
#include "device/batch_images.h"
#include "device/kernel_launch.h"
#include "transforms/placed_steps.h"

namespace millrace::device {

struct FinishedNumbers {
  struct Noise {
    float mean = 0, sigma = 0;
    bool clip = true;
    bool divides = false;  // bytes become numbers by a division, as in ToTensor
    bool before_normalize = false;
    uint64_t key = 0;
  };
  struct Box {
    base::Rect box;            // of the output, not empty
    std::vector<float> value;  // three; empty: noise
    bool per_channel = false;  // noise of one number for each channel
    uint64_t key = 0;
  };
  std::optional<Noise> noise;
  std::vector<Box> boxes;  // later ones cover earlier ones
  bool empty() const { return !noise && boxes.empty(); }
};

// Converts the chain's changes to the numbers of one row (transforms/placed_steps.h).
FinishedNumbers finished_numbers(const transforms::NumberSteps& steps, const transforms::Chain& chain);

// Returns why a picture of `out` cannot have `numbers`, as the end of a sentence; empty if it can.
std::string why_not_numbers(const FinishedNumbers& numbers, const BatchImages& out);

// numbers[i] belongs to picture i of `out`. `mean`, `std`: three values each or none. They normalise after
// the noise, where the noise comes before Normalize: in all pictures or in none. Otherwise as
// fused_augment().
void run_numbers(std::span<const FinishedNumbers* const> numbers, std::span<const double> mean,
                 std::span<const double> std, const BatchImages& out, const Place& place);

}  // namespace millrace::device
