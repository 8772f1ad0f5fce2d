// Transforms: a checked chain of the structs of transform_spec.h, from a stored picture to a tensor of a
// batch.
//
//   Transforms chain{RandomResizedCrop{224, 224}, HorizontalFlip{}, ToTensor{}, Normalize{mean, std}};
//
// Pixels are those of Pillow and torchvision (src/transforms/image_pipeline.h says where exactly). Immutable;
// copies are cheap.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/export.h"
#include "millrace/transform_spec.h"

namespace millrace {

class MILLRACE_API Transforms {
 public:
  class Impl;  // private

  // Throw Error(invalid_argument) naming the transform, the rule and the remedy: a chain ends with ToTensor,
  // or with what may follow it.
  Transforms(std::initializer_list<TransformSpec> chain);
  explicit Transforms(std::vector<TransformSpec> chain);

  DType dtype() const;
  // Of one sample: {channels, height, width}; empty where it depends on the picture.
  std::vector<int64_t> shape() const;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace millrace
