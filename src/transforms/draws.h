// draw_params(): every random decision of one sample, with torchvision's distributions, as a function of its
// key.
//
// Each transform draws from a stream of its own (key, view, position in the chain). Pure, any thread.
#pragma once

#include "base/sample_key.h"
#include "transforms/chain.h"
#include "transforms/params.h"
#include "transforms/picture_size.h"

namespace millrace::transforms {

// Throws Error(invalid_argument) if torchvision raises an exception for a picture that is too small.
SampleParams draw_params(const Chain& chain, PictureSize stored, int orientation, const base::SampleKey& key,
                         uint32_t view = 0);

}  // namespace millrace::transforms
