// RecordedPicture: a compressed picture and the crops, resizes and turns that it is to go through, run when
// the program asks for pixels.
//
// The recorded steps are Pillow's: sizes, boxes and filters have Pillow's meaning, and pixels are equal to
// the last bit. Only the region that the steps let through is decoded. A picture that is looked at a second
// time, in whatever form, is decoded whole, once, and kept by the thread until it looks at another picture:
// several crops of one file cost one decode. Values; recording copies a few hundred bytes. Any thread may do
// anything at any time: a picture is immutable, but for the pixels that a caller gives its source once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/geometry.h"
#include "transforms/picture_steps.h"
#include "transforms/value_table.h"

namespace millrace::pictures {

// Pillow's modes "RGB" and "L".
enum class Mode : uint8_t { rgb, grey };

class RecordedPicture {
 public:
  // Of `bytes`, which `keeper` keeps. Nothing when a decoder here may see another picture than Pillow, or
  // when Pillow may refuse it: a caller decodes such a file in its own way, at once. An ordinary JPEG waits,
  // for one pass over its bytes, 10 to 20 us per 100 kB; what can be wrong with it then is a warning to
  // everybody. Others are decoded here, since only that shows their damage. `grey`: of other formats, whether
  // Pillow's mode is L.
  static std::optional<RecordedPicture> open(std::shared_ptr<const void> keeper,
                                             std::span<const uint8_t> bytes, bool grey);

  // Of pixels that are copied: RGBX, or one byte each for a grey picture, dense.
  static RecordedPicture of_pixels(transforms::PictureSize size, Mode mode, const uint8_t* pixels);

  transforms::PictureSize size() const { return size_; }
  transforms::PictureSize stored_size() const;
  Mode mode() const { return mode_; }
  std::span<const uint8_t> compressed() const;
  size_t waiting_bytes()
      const;            // of the file, kept until somebody looks; 0: the stored picture's pixels are there
  int renders() const;  // how often any picture of this file was looked at
  // What this thread's last render() decoded: nothing, as the pixels were there, a part of the file, or all
  // (also if open() did, and nobody had looked since).
  enum class Decoded : uint8_t { nothing, part, whole };
  static Decoded last_decode();

  // Each adds a step. Sides are > 0, at most kMaxSide.
  static constexpr int32_t kMaxSide = 1 << 20;
  RecordedPicture crop(base::Rect box) const;
  RecordedPicture resize(const transforms::ResizeStep& how) const;
  RecordedPicture turn(int orientation) const;  // what puts a picture of this EXIF orientation upright
  RecordedPicture in(Mode mode) const;
  // An operation that is no map; its value as AugmentStep's.
  RecordedPicture recolor(AugmentKind kind, double value) const;
  // Channel c becomes what channel from[c] was; a permutation of 0, 1, 2.
  RecordedPicture permute(const std::array<uint8_t, 3>& from) const;
  RecordedPicture point(const std::array<uint8_t, 3 * 256>& table) const;
  // Sides of `padding`: left, top, right, bottom; >= 0.
  RecordedPicture pad(const std::array<int32_t, 4>& padding, std::array<uint8_t, 3> fill) const;
  // Keeps its size; positions are those of Pillow's AFFINE. `interpolation`: nearest, bilinear or bicubic.
  RecordedPicture map(const transforms::InverseAffine& inverse, Interpolation interpolation,
                      std::array<uint8_t, 3> fill) const;

  // Rows one after the other, without gaps: one byte a pixel (of a grey picture), red, green and blue, these
  // backwards, or these and a byte without meaning. All throw Error(corrupt_data) for entropy-coded data that
  // only Pillow may judge; give_pixels() helps then.
  enum class Layout : uint8_t { grey, rgb, bgr, rgbx };
  static int bytes_of(Layout layout);
  void render(Layout layout, uint8_t* out) const;
  // table.planes planes of table.type, or rows of interleaved ones; one is meant for grey pictures.
  void render(const transforms::ValueTable& table, void* out) const;

  // How often each byte occurs, by channel; a grey picture has one channel that counts.
  std::array<std::array<int64_t, 256>, 3> histogram() const;
  // The same picture with its pixels made, so that further looks decode nothing.
  RecordedPicture made() const;

  // The whole stored picture as RGBX, dense, for this and all that were recorded over the same file.
  void give_pixels(const uint8_t* rgbx) const;

 private:
  struct Source;
  class Renderer;
  // Steps over pixels, of which only the first may turn.
  struct Segment {
    transforms::PictureSize in;
    transforms::PictureSteps steps;
  };
  explicit RecordedPicture(std::shared_ptr<Source> source);
  static Renderer& renderer();
  RecordedPicture with(transforms::PictureStep step) const;

  std::shared_ptr<Source> source_;
  std::vector<Segment> segments_;  // at least one
  transforms::PictureSize size_;
  Mode mode_ = Mode::rgb;
};

}  // namespace millrace::pictures
