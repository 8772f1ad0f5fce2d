// finish_numbers(): what is done to a row of numbers, at any address: noise added, rectangles erased.
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
