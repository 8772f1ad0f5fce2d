#include "pictures/recorded_picture.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <utility>

#include "codecs/picture_decoder.h"
#include "millrace/error.h"
#include "transforms/color_rows.h"
#include "transforms/ops/exif_transpose.h"
#include "transforms/ops/grayscale.h"
#include "transforms/pixel_buffer.h"
#include "transforms/sample_plan.h"
#include "transforms/stage_runner.h"

namespace millrace::pictures {

using transforms::MoveStep;
using transforms::PictureSize;
using transforms::PictureStep;

// Pixels, where there are any, were written before `ready`, and stay.
struct RecordedPicture::Source {
  std::shared_ptr<const void> keeper;
  std::span<const uint8_t> bytes;
  PictureSize size;
  bool grey = false;
  bool decoded_at_open = false;
  std::atomic<int> renders = 0;

  base::ImageView pixels() const {
    return ready.load(std::memory_order_acquire) ? memory.view() : base::ImageView{};
  }
  template <typename Fill>
  void keep(Fill fill) {
    const std::lock_guard lock(mutex);
    if (ready.load(std::memory_order_relaxed)) return;
    fill(memory.resize(size.width, size.height));
    ready.store(true, std::memory_order_release);
  }

 private:
  std::mutex mutex;
  transforms::PixelBuffer memory;
  std::atomic<bool> ready = false;
};

namespace {

// Reused from picture to picture.
struct Buffers {
  codecs::PictureDecoder decoder{codecs::JpegRule::strict};
  transforms::SamplePlan plan;
  transforms::StageRunner runner;
  transforms::PixelBuffer decoded, result;
  std::array<transforms::PixelBuffer, 2> between;
};

void pack_row(const uint8_t* row, int32_t width, RecordedPicture::Layout layout, uint8_t* to) {
  switch (layout) {
    case RecordedPicture::Layout::rgbx:  // Pillow's fourth byte is 255
      for (int32_t x = 0; x < width; ++x) {
        uint32_t pixel;
        std::memcpy(&pixel, row + x * base::kPixelBytes, sizeof(pixel));
        pixel |= std::endian::native == std::endian::little ? 0xFF000000u : 0xFFu;
        std::memcpy(to + x * base::kPixelBytes, &pixel, sizeof(pixel));
      }
      return;
    case RecordedPicture::Layout::grey:
      for (int32_t x = 0; x < width; ++x) to[x] = row[x * base::kPixelBytes];
      return;
    case RecordedPicture::Layout::bgr:
      for (int32_t x = 0; x < width; ++x, row += base::kPixelBytes, to += 3)
        to[0] = row[2], to[1] = row[1], to[2] = row[0];
      return;
    case RecordedPicture::Layout::rgb: break;
  }
  // The last pixel by bytes, as the memory may end there.
  for (int32_t x = 0; x + 1 < width; ++x, row += base::kPixelBytes, to += 3)
    std::memcpy(to, row, base::kPixelBytes);
  std::memcpy(to, row, 3);
}

}  // namespace

class RecordedPicture::Renderer {
 public:
  Decoded last = Decoded::nothing;

  // Runs all segments but the last, and makes the last one's `plan`; returns the pixels of the region that it
  // reads.
  base::ImageView prepare(const RecordedPicture& picture) {
    base::ImageView in{};
    for (size_t i = 0; i < picture.segments_.size(); ++i) {
      const Segment& segment = picture.segments_[i];
      transforms::make_sample_plan(segment.steps, segment.in, buffers_.plan);
      const base::Rect need = buffers_.plan.region;
      const base::ImageView region = i == 0 ? decode(picture.source_, need) : in.part(need);
      if (i + 1 == picture.segments_.size()) return region;
      in = buffers_.between[i % 2].resize(buffers_.plan.out.width, buffers_.plan.out.height);
      buffers_.runner.run(buffers_.plan, region, in);
    }
    return in;
  }

  base::ImageView pixels(const RecordedPicture& picture) {
    if (picture.segments_.size() == 1 && picture.segments_[0].steps.empty())
      return decode(picture.source_, {0, 0, picture.size_.width, picture.size_.height});
    const base::ImageView region = prepare(picture);
    const base::ImageView out = buffers_.result.resize(picture.size_.width, picture.size_.height);
    buffers_.runner.run(buffers_.plan, region, out);
    return out;
  }

  void planes(const RecordedPicture& picture, const transforms::ValueTable& table, void* out) {
    const base::ImageView region = prepare(picture);
    buffers_.runner.run(buffers_.plan, region, table, out);
  }

 private:
  base::ImageView decode(const std::shared_ptr<Source>& source, base::Rect region) {
    const int looks = source->renders.fetch_add(1, std::memory_order_relaxed);
    const bool again = looks > 0;
    count(source);
    last = !again && source->decoded_at_open ? Decoded::whole : Decoded::nothing;
    if (const base::ImageView pixels = source->pixels(); pixels.data) return pixels.part(region);
    if (whole_.lock() == source) return buffers_.decoded.view().part(region);
    const base::Rect all{0, 0, source->size.width, source->size.height};
    const base::Rect wanted = again || several_looks_ ? all : region;
    whole_.reset();
    buffers_.decoder.probe(source->bytes);
    const base::ImageView view = buffers_.decoded.resize(wanted.width, wanted.height);
    buffers_.decoder.decode(wanted, view);
    if (wanted == all) whole_ = source;
    // In turn with other pictures: as Pillow, which has the pixels from load() on.
    if (wanted == all && looks > 1)
      source->keep([&](base::ImageView kept) { base::copy_pixels(view, kept); });
    last = wanted == all ? Decoded::whole : Decoded::part;
    return wanted == all ? view.part(region) : view;
  }

  // Several crops of each picture are a habit of a script's: a file will be looked at again if the one before
  // it was.
  void count(const std::shared_ptr<Source>& source) {
    if (current_.lock() == source) {
      ++looks_;
    } else {
      several_looks_ = looks_ > 1;
      looks_ = 1;
      current_ = source;
    }
  }

  Buffers buffers_;
  std::weak_ptr<const Source> whole_;    // the source of `decoded`, if that has all its pixels
  std::weak_ptr<const Source> current_;  // looked at last, and how often in a row
  int looks_ = 0;
  bool several_looks_ = false;
};

RecordedPicture::Renderer& RecordedPicture::renderer() {
  thread_local Renderer mine;
  return mine;
}

std::optional<RecordedPicture> RecordedPicture::open(std::shared_ptr<const void> keeper,
                                                     std::span<const uint8_t> bytes, bool grey) {
  thread_local codecs::PictureDecoder decoder{codecs::JpegRule::strict};
  auto source = std::make_shared<Source>();
  try {
    const codecs::PictureHeader header = decoder.probe(bytes);
    source->size = {header.width, header.height};
    const codecs::JpegHeader* const jpeg = decoder.jpeg();
    if (jpeg && ((jpeg->components != 1 && jpeg->components != 3) || jpeg->arithmetic)) return std::nullopt;
    source->grey = jpeg ? jpeg->components == 1 : grey;
    if (decoder.decodes_in_parts()) {
      source->keeper = std::move(keeper);
      source->bytes = bytes;
    } else {
      source->keep([&](base::ImageView view) { decoder.decode({0, 0, view.width, view.height}, view); });
      source->decoded_at_open = true;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return RecordedPicture(std::move(source));
}

RecordedPicture RecordedPicture::of_pixels(PictureSize size, Mode mode, const uint8_t* pixels) {
  auto source = std::make_shared<Source>();
  source->size = size;
  source->grey = mode == Mode::grey;
  source->keep([&](base::ImageView view) {
    for (int32_t y = 0; y < view.height; ++y) {
      uint8_t* const row = view.row(y);
      if (mode == Mode::grey) {
        for (int32_t x = 0; x < view.width; ++x) std::memset(row + x * base::kPixelBytes, *pixels++, 4);
      } else {
        std::memcpy(row, pixels, size_t(view.width) * base::kPixelBytes);
        pixels += size_t(view.width) * base::kPixelBytes;
      }
    }
  });
  return RecordedPicture(std::move(source));
}

RecordedPicture::RecordedPicture(std::shared_ptr<Source> source)
    : source_(std::move(source)), size_(source_->size), mode_(source_->grey ? Mode::grey : Mode::rgb) {
  segments_.push_back({size_, {}});
}

PictureSize RecordedPicture::stored_size() const { return source_->size; }
std::span<const uint8_t> RecordedPicture::compressed() const { return source_->bytes; }
RecordedPicture::Decoded RecordedPicture::last_decode() { return renderer().last; }
size_t RecordedPicture::waiting_bytes() const { return source_->bytes.size(); }
int RecordedPicture::renders() const { return source_->renders.load(std::memory_order_relaxed); }

RecordedPicture RecordedPicture::with(PictureStep step) const {
  RecordedPicture result = *this;
  result.size_ = size_after(step, size_);
  result.segments_.back().steps.push_back(std::move(step));
  return result;
}

RecordedPicture RecordedPicture::crop(base::Rect box) const { return with(MoveStep{box}); }

RecordedPicture RecordedPicture::pad(const std::array<int32_t, 4>& padding,
                                     std::array<uint8_t, 3> fill) const {
  const auto [left, top, right, bottom] = padding;
  const auto [width, height] = transforms::padded(size_, {left, top, right, bottom});
  return with(MoveStep{{-left, -top, width, height}, false, false, PaddingMode::constant, fill});
}

RecordedPicture RecordedPicture::resize(const transforms::ResizeStep& how) const { return with(how); }

RecordedPicture RecordedPicture::turn(int orientation) const {
  RecordedPicture result = *this;
  if (transforms::swaps_axes(orientation) && !segments_.back().steps.empty())
    result.segments_.push_back({size_, {}});
  transforms::PictureSteps steps;
  transforms::turn_upright(orientation, size_, steps);
  for (PictureStep& step : steps) result = result.with(std::move(step));
  return result;
}

RecordedPicture RecordedPicture::in(Mode mode) const {
  RecordedPicture result = mode == Mode::grey && mode_ == Mode::rgb ? with(transforms::kToGrey) : *this;
  result.mode_ = mode;
  return result;
}

RecordedPicture RecordedPicture::recolor(AugmentKind kind, double value) const {
  return with(transforms::RecolorStep{kind, value});
}

RecordedPicture RecordedPicture::permute(const std::array<uint8_t, 3>& from) const {
  return recolor(AugmentKind::permute, from[0] | from[1] << 2 | from[2] << 4);
}

RecordedPicture RecordedPicture::point(const std::array<uint8_t, 3 * 256>& table) const {
  return with(transforms::PointStep{std::make_shared<const std::array<uint8_t, 3 * 256>>(table)});
}

RecordedPicture RecordedPicture::map(const transforms::InverseAffine& inverse, Interpolation interpolation,
                                     std::array<uint8_t, 3> fill) const {
  if (inverse == transforms::kNoMap) return *this;
  return with(transforms::MapStep{inverse, interpolation, fill});
}

int RecordedPicture::bytes_of(Layout layout) {
  return layout == Layout::grey ? 1 : layout == Layout::rgbx ? base::kPixelBytes : 3;
}

void RecordedPicture::render(Layout layout, uint8_t* out) const {
  const base::ImageView view = renderer().pixels(*this);
  const size_t row_bytes = size_t(view.width) * bytes_of(layout);
  for (int32_t y = 0; y < view.height; ++y, out += row_bytes) pack_row(view.row(y), view.width, layout, out);
}

void RecordedPicture::render(const transforms::ValueTable& table, void* out) const {
  renderer().planes(*this, table, out);
}

std::array<std::array<int64_t, 256>, 3> RecordedPicture::histogram() const {
  return transforms::histogram_of(renderer().pixels(*this));
}

RecordedPicture RecordedPicture::made() const {
  auto source = std::make_shared<Source>();
  source->size = size_;
  source->grey = mode_ == Mode::grey;
  source->renders = 1;  // this
  const base::ImageView from = renderer().pixels(*this);
  source->keep([&](base::ImageView view) { base::copy_pixels(from, view); });
  return RecordedPicture(std::move(source));
}

void RecordedPicture::give_pixels(const uint8_t* rgbx) const {
  source_->keep([&](base::ImageView view) {
    const size_t row_bytes = size_t(view.width) * base::kPixelBytes;
    for (int32_t y = 0; y < view.height; ++y) std::memcpy(view.row(y), rgbx + y * row_bytes, row_bytes);
  });
}

}  // namespace millrace::pictures
