#include "loader/worker.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "codecs/entropy_data.h"
#include "device/chain_augmentation.h"
#include "loader/picture_reader.h"

namespace millrace::loader {
namespace {

Error with_path(const Error& error, const std::string& path) {
  const std::string reason = error.what();
  const bool named = reason.find(path) != std::string::npos;
  return Error(error.kind(), named ? reason : path + ": " + reason, path, error.offset(), error.code());
}

// A file that lost its end may still be decoded on a device, to a picture that nobody took; libjpeg's verdict
// is the one that counts.
bool ends_as_jpeg(std::span<const uint8_t> bytes) {
  constexpr size_t kMostBehind = 64;  // some cameras and servers add a few bytes
  constexpr uint8_t kEnd[] = {0xFF, 0xD9};
  const auto tail = bytes.last(std::min(bytes.size(), kMostBehind));
  return std::search(tail.begin(), tail.end(), std::begin(kEnd), std::end(kEnd)) != tail.end();
}

// The smallest rectangle that holds both.
base::Rect around(const base::Rect& a, const base::Rect& b) {
  const int32_t left = std::min(a.left, b.left), top = std::min(a.top, b.top);
  return {left, top, std::max(a.right(), b.right()) - left, std::max(a.bottom(), b.bottom()) - top};
}

// Of all views of a picture. Throws Error(invalid_argument) for more than fit.
transforms::OutputShape whole_row(int64_t elements) {
  if (elements > INT32_MAX)
    throw Error(ErrorKind::invalid_argument, "the views of a picture have " + std::to_string(elements) +
                                                 " elements together, more than fit a row");
  return {1, 1, static_cast<int32_t>(elements)};
}

// How much a crop is reduced at most in the fused kernel: a block of it holds the inputs of its tile.
constexpr int64_t kMostReduction = 256;

// A scan with other markers in it than restart markers is damage that a device's decoder need not mind, and
// Pillow does.
bool device_can(const codecs::JpegHeader& header, std::span<const uint8_t> bytes) {
  return (header.components == 1 || header.components == 3) && !header.arithmetic && header.precision == 8 &&
         ends_as_jpeg(bytes) &&
         (header.progressive || codecs::scan_is_regular(bytes.subspan(header.scan_begin), /*restarts=*/true));
}

}  // namespace

struct Worker::Impl {
  Impl(std::shared_ptr<const ImageDataset> images, trace::StageTimes* stage_times,
       std::shared_ptr<DecodeShare> with_device)
      : dataset(std::move(images)), times(stage_times), share(std::move(with_device)),
        views(dataset->made_for(0).size()),
        picture(
            dataset->fallback.get(), [this] { return name(); }, times,
            std::any_of(dataset->views.begin(), dataset->views.end(),
                        [](const auto& view) { return view->needs_orientation(); }),
            dataset->modes) {}

  transforms::OutputShape prepare(const base::SampleKey& key, size_t form);
  const transforms::ImagePipeline& pipeline() const { return *made.front(); }
  void finish(const RowMemory& memory);
  void finish_half(transforms::HalfRow& out);
  void finish_interleaved(void* out);
  base::ImageView decoded() { return pixels ? copied(region) : picture.decode(region); }
  void read();
  base::ImageView copied(base::Rect part);  // of `pixels`
  std::string name() const { return dataset->files->name(index); }
  std::unique_ptr<LeftPicture> left_to_device();

  const std::shared_ptr<const ImageDataset> dataset;
  trace::StageTimes* const times;
  const std::shared_ptr<DecodeShare> share;

  // The sample in work.
  int64_t index = 0;
  std::span<const std::shared_ptr<const transforms::ImagePipeline>> made;  // of it, one for each of `views`
  struct View {
    transforms::SampleParams params;
    transforms::ImagePipeline::Need need;
    decltype(transforms::ImagePipeline::make_scratch()) scratch = transforms::ImagePipeline::make_scratch();
  };
  std::vector<View> views;  // the scratch is reused from sample to sample
  base::Rect region;        // that one of them needs
  std::unique_ptr<LeftPicture> left;
  std::optional<sources::Pixels> pixels;  // of a sample that has no file
  int64_t prepare_ns = 0;

  // Reused from sample to sample.
  io::FileBuffer file;
  PictureReader picture;
  transforms::PixelBuffer copy;
};

transforms::OutputShape Worker::Impl::prepare(const base::SampleKey& key, size_t form) {
  index = key.index;
  made = dataset->made_for(form);
  left.reset();
  const int64_t start = share ? base::now_ns() : 0;
  pixels = dataset->files->pixels(index);
  if (!pixels) read();
  const codecs::PictureHeader header =
      pixels ? codecs::PictureHeader{codecs::ImageFormat::unknown, pixels->width, pixels->height, 1}
             : picture.open(file.bytes());
  const trace::StageScope scope(trace::Stage::transform);
  base::SampleKey identity = key;
  dataset->files->identify(identity);
  int64_t elements = 0;
  for (size_t v = 0; v < views.size(); ++v) {
    View& view = views[v];
    view.params =
        made[v]->draw(header.width, header.height, header.orientation, identity, static_cast<uint32_t>(v));
    view.need = made[v]->plan(header.width, header.height, view.params, *view.scratch);
    region = v == 0 ? view.need.region : around(region, view.need.region);
    elements += view.need.shape.elements();
  }
  if (share && !pixels) left = left_to_device();
  if (share) prepare_ns = base::now_ns() - start;
  return views.size() == 1 ? views[0].need.shape : whole_row(elements);
}

void Worker::Impl::read() {
  {
    const trace::StageTimer timer(times, trace::Stage::read);
    dataset->files->read(index, file);
  }
  if (file.bytes().empty())
    throw Error(ErrorKind::corrupt_data, name() + " is empty (0 bytes); remove it or copy it again", name(),
                0, codecs::kNotIdentified);
}

base::ImageView Worker::Impl::copied(base::Rect part) {
  const trace::StageTimer timer(times, trace::Stage::decode);
  const base::ImageView view = copy.resize(part.width, part.height);
  for (int32_t y = 0; y < view.height; ++y) {
    const uint8_t* from = pixels->data + (part.top + y) * pixels->row + part.left * pixels->pixel;
    uint8_t* to = view.row(y);
    for (int32_t x = 0; x < view.width; ++x, from += pixels->pixel, to += base::kPixelBytes)
      for (int c = 0; c < 3; ++c) to[c] = from[c * pixels->channel];
  }
  return view;
}

std::unique_ptr<LeftPicture> Worker::Impl::left_to_device() {
  const codecs::JpegHeader* const header = picture.jpeg();
  if (!header || !device_can(*header, file.bytes())) return nullptr;
  std::vector<device::Augmentation> augmentations;
  base::Rect all{};  // that is to be decoded
  for (size_t v = 0; v < views.size(); ++v) {
    auto augmentation =
        device::augmentation_of(made[v]->chain(), {header->width, header->height}, views[v].params);
    if (!augmentation) return nullptr;
    const base::Rect& crop = augmentation->crop;
    if (crop.width > kMostReduction * augmentation->width ||
        crop.height > kMostReduction * augmentation->height)
      return nullptr;
    all = v == 0 ? crop : around(all, crop);
    augmentations.push_back(std::move(*augmentation));
  }
  const size_t decoded =
      static_cast<size_t>(all.width) * static_cast<size_t>(all.height) * 3 + kDecodedAlignment;
  const DecodeShare::Bytes bytes{decoded, file.capacity()};
  if (!share->take(bytes)) return nullptr;
  auto result = std::make_unique<LeftPicture>(share, bytes);
  result->region = all;
  for (device::Augmentation& augmentation : augmentations) {
    augmentation.crop.left -= all.left;
    augmentation.crop.top -= all.top;
  }
  result->views = std::move(augmentations);
  return result;
}

void Worker::Impl::finish(const RowMemory& memory) {
  if (left) {
    left->file = std::exchange(file, share->spare_buffer());
    share->worker_took(prepare_ns, true);
    return;
  }
  const int64_t start = share ? base::now_ns() : 0;
  const base::ImageView view = decoded();
  {
    const trace::StageTimer timer(times, trace::Stage::transform);
    const size_t element = base::dtype_bytes(pipeline().output_type());
    size_t before = 0;
    for (size_t v = 0; v < views.size(); ++v) {
      const auto& [own, shape] = views[v].need;
      const base::ImageView part =
          view.part({own.left - region.left, own.top - region.top, own.width, own.height});
      const size_t bytes = static_cast<size_t>(shape.elements()) * element;
      uint8_t* const to = dataset->stacked ? memory.part(0, bytes * views.size()) + before  // of one shape
                                           : memory.part(before, bytes);
      made[v]->apply(part, *views[v].scratch, to);
      before += bytes;
    }
  }
  if (share) share->worker_took(prepare_ns + base::now_ns() - start, false);
}

void Worker::Impl::finish_half(transforms::HalfRow& out) {
  const base::ImageView view = decoded();
  const trace::StageTimer timer(times, trace::Stage::transform);
  pipeline().apply_unmixed(view, *views[0].scratch, out);
}

void Worker::Impl::finish_interleaved(void* out) {
  const base::ImageView view = decoded();
  const trace::StageTimer timer(times, trace::Stage::transform);
  pipeline().apply_interleaved(view, *views[0].scratch, out);
}

namespace {

int64_t elements_of(std::span<const transforms::OutputShape> parts) {
  int64_t elements = 0;
  for (const transforms::OutputShape& part : parts) elements += part.elements();
  return elements;
}

}  // namespace

RowSource picture_rows(const std::shared_ptr<const ImageDataset>& dataset) {
  if (!dataset->labels.empty() && std::cmp_not_equal(dataset->labels.size(), dataset->files->size()))
    throw Error(ErrorKind::invalid_argument, "the dataset has " + std::to_string(dataset->files->size()) +
                                                 " files but " + std::to_string(dataset->labels.size()) +
                                                 " labels");
  RowSource source;
  source.size = dataset->files->size();
  source.type = dataset->pipeline().output_type();
  source.ragged = dataset->ragged;
  source.parts = dataset->parts();
  if (dataset->forms)
    for (const auto& form : dataset->views) source.forms.push_back(form->fixed_shape());
  else if (!dataset->ragged)
    source.fixed_shape = dataset->views.size() == 1 ? dataset->pipeline().fixed_shape()
                                                    : whole_row(elements_of(dataset->shapes()));
  source.labels = dataset->labels;
  source.make_maker = [dataset](trace::StageTimes* times) {
    return std::make_unique<Worker>(dataset, times);
  };
  return source;
}

Worker::Worker(std::shared_ptr<const ImageDataset> dataset, trace::StageTimes* times,
               std::shared_ptr<DecodeShare> share)
    : impl_(std::make_unique<Impl>(std::move(dataset), times, std::move(share))) {}
Worker::~Worker() = default;

transforms::OutputShape Worker::prepare(const base::SampleKey& key, size_t form) {
  try {
    return impl_->prepare(key, form);
  } catch (const Error& error) {
    throw with_path(error, impl_->name());
  }
}

std::vector<transforms::OutputShape> Worker::parts() const {
  std::vector<transforms::OutputShape> result;
  for (const auto& view : impl_->views) result.push_back(view.need.shape);
  return result;
}

void Worker::finish(const RowMemory& memory) {
  try {
    impl_->finish(memory);
  } catch (const Error& error) {
    throw with_path(error, impl_->name());
  }
}

void Worker::finish_half(transforms::HalfRow& out) {
  try {
    impl_->finish_half(out);
  } catch (const Error& error) {
    throw with_path(error, impl_->name());
  }
}

void Worker::finish_interleaved(void* out) {
  try {
    impl_->finish_interleaved(out);
  } catch (const Error& error) {
    throw with_path(error, impl_->name());
  }
}

std::unique_ptr<RowAside> Worker::take_aside() { return std::move(impl_->left); }

std::vector<transforms::SampleParams> Worker::params() const {
  std::vector<transforms::SampleParams> result;
  for (const auto& view : impl_->views) result.push_back(view.params);
  return result;
}

}  // namespace millrace::loader
