// FinishedNumbers: what is done to one picture's numbers in the batch, decided: noise, then rectangles.
// Plain values; run_numbers() does it to the pictures of a batch that have any.
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
    bool divides = false;  // bytes become numbers by a division, as ToTensor does it
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
  std::vector<Box> boxes;  // one over the other
  bool empty() const { return !noise && boxes.empty(); }
};

// What the chain does to its row's numbers (transforms/placed_steps.h).
FinishedNumbers finished_numbers(const transforms::NumberSteps& steps, const transforms::Chain& chain);

// Empty when a picture of `out` can have them; else why not, as the end of a sentence.
std::string why_not_numbers(const FinishedNumbers& numbers, const BatchImages& out);

// numbers[i]: of picture i of `out`. `mean`, `std`: three each or none; what values are normalised by behind
// a noise that comes before it, which is so of all pictures or of none. As fused_augment() otherwise.
void run_numbers(std::span<const FinishedNumbers* const> numbers, std::span<const double> mean,
                 std::span<const double> std, const BatchImages& out, const Place& place);

}  // namespace millrace::device
