#include "api/image_dataset.h"

#include <utility>

#include "api/loader_engine.h"
#include "api/transforms_impl.h"
#include "loader/data_loader.h"

namespace millrace::api {
namespace {

std::shared_ptr<const loader::ImageDataset> images_of(std::shared_ptr<const sources::SampleFiles> files,
                                                      std::vector<int64_t> labels,
                                                      const Transforms& transforms, bool exif) {
  auto images = std::make_shared<loader::ImageDataset>();
  images->files = std::move(files);
  images->labels = std::move(labels);
  images->views.push_back(pipeline_of(transforms, exif));
  return images;
}

std::vector<int64_t> sides(const transforms::OutputShape& shape) {
  return {shape.channels, shape.height, shape.width};
}

}  // namespace

ImageSamples::ImageSamples(std::shared_ptr<const sources::SampleFiles> files, std::vector<int64_t> labels,
                           const Transforms& transforms, bool exif, std::string python_class)
    : images_(images_of(std::move(files), std::move(labels), transforms, exif)),
      python_class_(std::move(python_class)), fields_(image_field_specs(images_->pipeline())) {}

std::unique_ptr<Engine> ImageSamples::open(const EngineOptions& options) const {
  return std::make_unique<LoaderEngine>(
      loader::DataLoader::create(images_, loader_options(options)),
      [memory = BatchMemory(options.memory)](loader::Batch& batch) { return image_fields(batch, memory); });
}

std::vector<FieldSpec> image_field_specs(const transforms::ImagePipeline& pipeline) {
  const auto shape = pipeline.fixed_shape();
  return {{"image", pipeline.output_type(), shape ? sides(*shape) : std::vector<int64_t>{}, false},
          {"label", DType::i64, {}, false}};
}

std::vector<Field> image_fields(loader::Batch& batch, const BatchMemory& memory) {
  const FieldSpec image{"image", batch.type, sides(batch.shape), false};
  uint8_t* const data = batch.images.data();
  std::vector<Field> fields;
  fields.push_back(memory.dense(image, batch.rows, data, shared(std::move(batch.images))));
  fields.push_back(memory.labels(batch.labels));
  return fields;
}

}  // namespace millrace::api
