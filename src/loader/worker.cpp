#include "loader/worker.h"

#include <string>
#include <utility>

#include "codecs/image_header.h"
#include "codecs/jpeg_decoder.h"
#include "io/read_file.h"

namespace millrace {
namespace {

Error with_path(const Error& error, const std::string& path) {
  const std::string reason = error.what();
  const bool named = reason.find(path) != std::string::npos;
  return Error(error.kind(), named ? reason : path + ": " + reason, path, error.offset(), error.code());
}

}  // namespace

struct Worker::Impl {
  Impl(std::shared_ptr<const ImageDataset> images, StageTimes* stage_times) : dataset(std::move(images)), times(stage_times) {}

  OutputShape prepare(const SampleKey& key);
  void finish(void* row);
  void decode_whole();

  const std::shared_ptr<const ImageDataset> dataset;
  StageTimes* const times;

  // The sample in work.
  std::string path;
  bool is_jpeg = false;
  JpegHeader header;
  SampleParams params;
  Rect region;

  // Reused from sample to sample.
  FileBuffer file;
  PixelBuffer pixels;
  JpegDecoder decoder;
  decltype(ImagePipeline::make_scratch()) scratch = ImagePipeline::make_scratch();
};

OutputShape Worker::Impl::prepare(const SampleKey& key) {
  {
    const StageTimer timer(times, Stage::read);
    read_file(path, file);
  }
  if (file.bytes().empty())
    throw Error(ErrorKind::corrupt_data, path + " is empty (0 bytes); remove it or copy it again", path, 0);

  is_jpeg = sniff(file.bytes()) == ImageFormat::jpeg;
  if (is_jpeg)
    header = probe_jpeg(file.bytes());
  else
    decode_whole();

  const ImagePipeline& pipeline = *dataset->pipeline;
  params = pipeline.draw(header.width, header.height, header.orientation, key);
  const ImagePipeline::Need need = pipeline.plan(header.width, header.height, params, *scratch);
  region = need.region;
  return need.shape;
}

// The fallback knows a picture's size only when it has decoded it.
void Worker::Impl::decode_whole() {
  if (!dataset->fallback)
    throw Error(ErrorKind::unavailable, path + " is " + format_name(sniff(file.bytes())) +
                                            ", not JPEG, and the dataset has no fallback decoder; convert it or give one", path);
  const StageTimer timer(times, Stage::decode);
  header = {};
  dataset->fallback->decode(file.bytes(), path, pixels, &header.orientation);
  header.width = pixels.view().width;
  header.height = pixels.view().height;
}

void Worker::Impl::finish(void* row) {
  ImageView view;
  if (is_jpeg) {
    const StageTimer timer(times, Stage::decode);
    view = pixels.resize(region.width, region.height);
    decoder.decode(file.bytes(), header, region, view);
  } else {
    const ImageView whole = pixels.view();
    view = {whole.row(region.top) + ptrdiff_t{region.left} * kPixelBytes, region.width, region.height, whole.stride_bytes};
  }
  const StageTimer timer(times, Stage::transform);
  dataset->pipeline->apply(view, *scratch, row);
}

Worker::Worker(std::shared_ptr<const ImageDataset> dataset, StageTimes* times)
    : impl_(std::make_unique<Impl>(std::move(dataset), times)) {}
Worker::~Worker() = default;

OutputShape Worker::prepare(const SampleKey& key) {
  impl_->path = impl_->dataset->paths->path(static_cast<size_t>(key.index));
  try {
    return impl_->prepare(key);
  } catch (const Error& error) {
    throw with_path(error, impl_->path);
  }
}

void Worker::finish(void* row) {
  try {
    impl_->finish(row);
  } catch (const Error& error) {
    throw with_path(error, impl_->path);
  }
}

const SampleParams& Worker::params() const { return impl_->params; }

}  // namespace millrace
