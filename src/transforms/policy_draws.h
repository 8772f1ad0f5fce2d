// What an AugmentPolicy does to one picture: its random decisions as steps with values and maps. Pure, any
// thread.
#pragma once

#include <vector>

#include "base/philox.h"
#include "millrace/augment_policy.h"
#include "transforms/params.h"
#include "transforms/picture_size.h"

namespace millrace::transforms {

// The operations of `count` branches that happen, in order. Throws Error(invalid_argument) where Pillow
// refuses a value. `in`: the picture's size, which none of them changes.
std::vector<AugmentStep> draw_policy(const AugmentPolicy& policy, int32_t count, PictureSize in,
                                     base::Philox& random);

MixParams draw_mix(const AugMix& mix, PictureSize in, base::Philox& random);

}  // namespace millrace::transforms
