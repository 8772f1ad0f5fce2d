#include "api/image_dataset.h"

#include <cstring>
#include <utility>

#include "api/loader_engine.h"
#include "api/transforms_impl.h"
#include "loader/data_loader.h"

namespace millrace::api {
namespace {

std::shared_ptr<const loader::ImageDataset> images_of(std::shared_ptr<const sources::SampleFiles> files,
                                                      std::vector<int64_t> labels,
                                                      const Transforms& transforms, bool exif, bool ragged) {
  auto images = std::make_shared<loader::ImageDataset>();
  images->files = std::move(files);
  images->labels = std::move(labels);
  images->views.push_back(pipeline_of(transforms, exif));
  images->ragged = ragged;
  return images;
}

std::vector<int64_t> sides(const transforms::OutputShape& shape) {
  return {shape.channels, shape.height, shape.width};
}

}  // namespace

ImageSamples::ImageSamples(std::shared_ptr<const sources::SampleFiles> files, std::vector<int64_t> labels,
                           const Transforms& transforms, bool exif, bool ragged, std::string python_class)
    : images_(images_of(std::move(files), std::move(labels), transforms, exif, ragged)),
      python_class_(std::move(python_class)), fields_(image_field_specs(images_->pipeline(), ragged)) {}

std::unique_ptr<Engine> ImageSamples::open(const EngineOptions& options) const {
  return std::make_unique<LoaderEngine>(
      loader::DataLoader::create(images_, loader_options(options)),
      [memory = BatchMemory(options.memory)](loader::Batch& batch) { return image_fields(batch, memory); });
}

namespace {

const FieldSpec kSize{"image_size", DType::i64, {3}, false}, kLabel{"label", DType::i64, {}, false};

std::vector<Field> ragged_fields(loader::Batch& batch, const BatchMemory& memory) {
  std::vector<int64_t> offsets{0}, sizes;
  for (const loader::RaggedRow& row : batch.ragged) {
    offsets.push_back(offsets.back() + row.parts[0].elements());
    for (const int64_t side : sides(row.parts[0])) sizes.push_back(side);
  }
  const size_t element = dtype_bytes(batch.type);
  auto [data, owner] = memory.allocate(static_cast<size_t>(offsets.back()) * element);
  for (size_t i = 0; i < batch.ragged.size(); ++i) {
    const loader::RaggedRow& row = batch.ragged[i];
    std::memcpy(static_cast<uint8_t*>(data) + static_cast<size_t>(offsets[i]) * element,
                batch.block(row.block).data() + row.offset,
                static_cast<size_t>(offsets[i + 1] - offsets[i]) * element);
  }
  std::vector<Field> fields;
  fields.emplace_back("image", batch.type, std::vector{offsets.back()}, data, std::move(owner),
                      std::move(offsets));
  fields.push_back(memory.numbers(kSize, sizes));
  fields.push_back(memory.labels(batch.labels));
  return fields;
}

}  // namespace

std::vector<FieldSpec> image_field_specs(const transforms::ImagePipeline& pipeline, bool ragged) {
  if (ragged) return {{"image", pipeline.output_type(), {}, true}, kSize, kLabel};
  const auto shape = pipeline.fixed_shape();
  return {{"image", pipeline.output_type(), shape ? sides(*shape) : std::vector<int64_t>{}, false}, kLabel};
}

std::vector<Field> image_fields(loader::Batch& batch, const BatchMemory& memory) {
  if (!batch.ragged.empty()) return ragged_fields(batch, memory);
  const FieldSpec image{"image", batch.type, sides(batch.shape), false};
  uint8_t* const data = batch.images.data();
  std::vector<Field> fields;
  fields.push_back(memory.dense(image, batch.rows, data, shared(std::move(batch.images))));
  fields.push_back(memory.labels(batch.labels));
  return fields;
}

}  // namespace millrace::api
