#include "millrace/transforms.h"

#include <utility>

#include "api/transforms_impl.h"
#include "millrace/error.h"

namespace millrace {

Transforms::Transforms(std::initializer_list<TransformSpec> chain)
    : Transforms(std::vector<TransformSpec>(chain)) {}

Transforms::Transforms(std::vector<TransformSpec> chain)
    : impl_(std::make_shared<const Impl>(std::move(chain))) {}

DType Transforms::dtype() const { return api::pipeline_of(*this, false)->output_type(); }

std::vector<int64_t> Transforms::shape() const {
  const auto fixed = api::pipeline_of(*this, false)->fixed_shape();
  if (!fixed) return {};
  return {fixed->channels, fixed->height, fixed->width};
}

}  // namespace millrace

namespace millrace::api {

std::shared_ptr<const transforms::ImagePipeline> pipeline_of(const Transforms& transforms, bool exif) {
  const auto& impl = transforms.impl();
  if (!impl) throw Error(ErrorKind::invalid_argument, "these Transforms were moved from; make new ones");
  if (!exif || impl->pipeline->needs_orientation()) return impl->pipeline;
  std::vector<TransformSpec> chain{ExifTranspose{}};
  chain.insert(chain.end(), impl->specs.begin(), impl->specs.end());
  return transforms::ImagePipeline::create(std::move(chain));
}

}  // namespace millrace::api
