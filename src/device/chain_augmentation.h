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

// Empty: not on the device (colours of a whole photo before a resize, ...): the picture is the CPU's. What
// turns bytes into numbers is not in it, noise and erased rectangles are. Pure, any thread.
// Throws Error(invalid_argument) when `params` do not belong to this chain and picture.
std::optional<Augmentation> augmentation_of(const transforms::Chain& chain, transforms::PictureSize stored,
                                            const transforms::SampleParams& params);

// Why batches of this chain cannot be made by a fused kernel, as the end of a sentence; empty when they can.
// Looks at the decisions for some pictures: single ones may still come out as the CPU's.
std::string why_not_fused(const transforms::ImagePipeline& pipeline);

}  // namespace millrace::device
