// finish_numbers(): adds noise to a row of numbers and erases rectangles in it, at any address.
#pragma once

#include "transforms/erase.h"
#include "transforms/noise.h"

namespace millrace::transforms {

// `row`: three dense planes of `size`.
inline void finish_numbers(const NumberSteps& steps, PictureSize size, base::DType type, void* row) {
  add_noise(steps.noise, size, row);
  erase(steps.erasures, size, type, row);
}

}  // namespace millrace::transforms
