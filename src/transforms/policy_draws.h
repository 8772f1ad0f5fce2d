// The random decisions of an AugmentPolicy for one picture, as steps with values and maps. Pure, any thread.
#pragma once

#include <vector>

#include "base/philox.h"
#include "millrace/augment_policy.h"
#include "transforms/params.h"
#include "transforms/picture_size.h"

namespace millrace::transforms {

// Draws the operations of `count` branches that are applied, in order. Throws Error(invalid_argument) if
// Pillow refuses a value. `in`: the picture's size; no operation changes it.
std::vector<AugmentStep> draw_policy(const AugmentPolicy& policy, int32_t count, PictureSize in,
                                     base::Philox& random);

MixParams draw_mix(const AugMix& mix, PictureSize in, base::Philox& random);

}  // namespace millrace::transforms
