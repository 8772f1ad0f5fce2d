// Normal numbers as a function of a key: the noise that is added to tensors, or put into erased rectangles.
//
// Number n of a key is number n % 4 of Philox block n / 4: two of them come from two words by Box and Muller
// (1958), in f32. No state, any thread. About 15 ns a number.
#pragma once

#include <array>
#include <cstdint>

#include "transforms/placed_steps.h"

namespace millrace::transforms {

std::array<float, 4> normal_block(uint64_t key, uint64_t block);

// Adds normal number e to element e with torchvision's arithmetic, then normalises the values if
// noise.normalize is set. `out`: three dense planes of `size`, f32, at any address.
void add_noise(const AddedNoise& noise, PictureSize size, void* out);

}  // namespace millrace::transforms
