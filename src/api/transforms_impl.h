// Transforms::Impl: the structs of a chain, and the pipeline that they make. Immutable; any thread.
#pragma once

#include <memory>
#include <vector>

#include "millrace/transforms.h"
#include "transforms/image_pipeline.h"

namespace millrace {

class MILLRACE_PRIVATE Transforms::Impl {
 public:
  explicit Impl(std::vector<TransformSpec> chain)
      : specs(std::move(chain)), pipeline(transforms::ImagePipeline::create(specs)) {}

  const std::vector<TransformSpec> specs;
  const std::shared_ptr<const transforms::ImagePipeline> pipeline;  // shared with the datasets that use it
};

}  // namespace millrace

namespace millrace::api {

// The pipeline of a dataset's pictures; `exif`: they are turned upright first. Throws Error(invalid_argument)
// for empty Transforms.
std::shared_ptr<const transforms::ImagePipeline> pipeline_of(const Transforms& transforms, bool exif);

}  // namespace millrace::api
