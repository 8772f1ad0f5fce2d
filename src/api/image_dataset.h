// ImageSamples: pictures in files, wherever these lie, with a label each: the fields "image" and "label".
//
//   sources::SampleFiles ──▶ loader::ImageDataset ──▶ loader::DataLoader ──▶ LoaderEngine
//
// Base of every kind of picture dataset. Immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/batch_fields.h"
#include "api/dataset_impl.h"
#include "loader/image_dataset.h"
#include "millrace/transforms.h"

namespace millrace::api {

class ImageSamples : public Dataset::Impl {
 public:
  // `labels`: as many as files, or none: all are 0.
  ImageSamples(std::shared_ptr<const sources::SampleFiles> files, std::vector<int64_t> labels,
               const Transforms& transforms, bool exif, bool ragged, std::string python_class);

  int64_t size() const override { return images_->files->size(); }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  std::string python_class() const override { return python_class_; }
  std::unique_ptr<Engine> open(const EngineOptions& options) const override;

  const loader::ImageDataset& images() const { return *images_; }

 private:
  const std::shared_ptr<const loader::ImageDataset> images_;  // shared with the engines
  const std::string python_class_;
  const std::vector<FieldSpec> fields_;
};

// The fields of a batch of pictures. Ragged ones are copied, once, so that they lie in order.
std::vector<FieldSpec> image_field_specs(const transforms::ImagePipeline& pipeline, bool ragged);
std::vector<Field> image_fields(loader::Batch& batch, const BatchMemory& memory);

}  // namespace millrace::api
