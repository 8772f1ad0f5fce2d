// augmentation_of: a chain's decisions for one picture as the Augmentation of a fused kernel, so that GPU and
// CPU do the same.
#pragma once

#include <optional>
#include <string>

#include "device/fused_augment.h"
#include "transforms/chain.h"
#include "transforms/image_pipeline.h"
#include "transforms/params.h"
#include "transforms/picture_size.h"

namespace millrace::device {

// Empty if the device cannot make the picture (colours of a whole photo before a resize, ...): the CPU makes
// it. The result has noise and erased rectangles, but not the conversion of bytes to numbers. Pure, any
// thread.
// Throws Error(invalid_argument) when `params` do not belong to this chain and picture.
std::optional<Augmentation> augmentation_of(const transforms::Chain& chain, transforms::PictureSize stored,
                                            const transforms::SampleParams& params);

// Returns why a fused kernel cannot make batches of this chain, as the end of a sentence; empty if it can.
// Looks at the decisions for some pictures only: the CPU may still have to make single pictures.
std::string why_not_fused(const transforms::ImagePipeline& pipeline);

}  // namespace millrace::device
