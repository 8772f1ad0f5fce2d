// Frame: torchvision's Pad and RandomZoomOut, timm's CenterCropOrPad, RandomCropOrPad and TrimBorder.
#pragma once

#include <cstdlib>

#include "transforms/ops/center_crop.h"
#include "transforms/ops/float_draws.h"
#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
inline constexpr std::array kNamesOf<Frame::Kind>{"pad", "center", "anywhere", "zoom_out"};

template <>
struct Operation<Frame> {
  static constexpr const char* key = "frame";
  static const char* name_of(const Frame& t) {
    constexpr std::array kNames{"Pad", "CenterCropOrPad", "RandomCropOrPad", "RandomZoomOut"};
    return kNames[static_cast<size_t>(t.kind)];
  }

  static void fields(auto& f, auto& t) {
    f("kind", t.kind)("height?", t.height)("width?", t.width)("padding?", t.padding)("side_range?", t.side);
    f("p?", t.p)("fill?", t.fill)("padding_mode?", t.padding_mode);
  }
  static void check(const Frame& t, const Check& check) {
    if (t.kind != Frame::Kind::pad && t.kind != Frame::Kind::zoom_out) check.positive_size(t.height, t.width);
    for (const int32_t side : t.padding) {
      check.require(side >= 0 || t.padding_mode == PaddingMode::constant,
                    "padding must be >= 0 in this padding_mode; cut borders off in a step before");
      check.require(std::abs(int64_t{side}) <= 1 << 28, "padding must fit in memory");
    }
    check.probability(t.p);
    check.require(t.side.min >= 1 && t.side.min <= t.side.max && t.side.max <= 1 << 15,
                  "side_range must be (min, max) with 1 <= min <= max <= 32768");
  }
  static bool moves_tensors(const Frame& t, const TensorSoFar& before) {
    return before.keeps_border(t.padding_mode, t.fill);
  }
  static std::optional<PictureSize> fixed_size(const Frame& t, std::optional<PictureSize> in) {
    if (t.kind == Frame::Kind::center || t.kind == Frame::Kind::anywhere)
      return PictureSize{t.width, t.height};
    if (t.kind == Frame::Kind::zoom_out || !in) return std::nullopt;
    const base::Rect around = box(t, {}, *in);
    return PictureSize{around.width, around.height};
  }

  static bool decides(const Frame& t) {
    return t.kind == Frame::Kind::anywhere || t.kind == Frame::Kind::zoom_out;
  }
  static void draw(const Frame& t, Draw& draw) {
    if (!draw.applies(t.p)) return;
    const PictureSize in = draw.in;
    if (t.kind == Frame::Kind::anywhere) {
      // Draws a distance from 0 to `room`. `room` is negative if the frame is larger than the picture.
      const auto place = [&](int32_t room) {
        const auto drawn = static_cast<int32_t>(draw.random.integer(0, std::abs(room) + 1));
        return room < 0 ? -drawn : drawn;
      };
      const int32_t top = place(in.height - t.height), left = place(in.width - t.width);
      draw.decided.box = {left, top, t.width, t.height};
      return;
    }
    const float side = float_between(t.side, draw.random);
    const auto more_x = static_cast<int32_t>(static_cast<float>(in.width) * side) - in.width,
               more_y = static_cast<int32_t>(static_cast<float>(in.height) * side) - in.height;
    const float left = unit_float(draw.random) * static_cast<float>(more_x),
                top = unit_float(draw.random) * static_cast<float>(more_y);
    const PictureSize full = padded(in, {0, 0, more_x, more_y});
    draw.decided.box = {-static_cast<int32_t>(left), -static_cast<int32_t>(top), full.width, full.height};
  }
  static bool fits(const Frame& t, const OpParams& decided, PictureSize in) {
    const base::Rect& box = decided.box;
    if (t.kind == Frame::Kind::anywhere) return box.width == t.width && box.height == t.height;
    return !decided.applied || inside({-box.left, -box.top, in.width, in.height}, {box.width, box.height});
  }
  static void plan(const Frame& t, const OpParams& decided, PictureSize in, PictureSteps& to) {
    to.push_back(MoveStep{box(t, decided, in), false, false, t.padding_mode, t.fill});
  }
  static void describe(auto& f, const OpParams& decided) { f.box(decided.box)("applied", decided.applied); }

 private:
  // In the coordinates of the picture.
  static base::Rect box(const Frame& t, const OpParams& decided, PictureSize in) {
    switch (t.kind) {
      case Frame::Kind::center: return center_crop_box({t.height, t.width}, in);
      case Frame::Kind::anywhere: return decided.box;
      case Frame::Kind::zoom_out:
        return decided.applied ? decided.box : base::Rect{0, 0, in.width, in.height};
      case Frame::Kind::pad: break;
    }
    const PictureSize full = padded(in, {t.padding[0], t.padding[1], t.padding[2], t.padding[3]});
    if (full.width < 1 || full.height < 1)
      throw Error(
          ErrorKind::invalid_argument,
          "Pad: nothing is left of a picture of size " + text(in) +
              " (height, width) when its borders are cut off; cut off less, or leave such pictures out");
    return {-t.padding[0], -t.padding[1], full.width, full.height};
  }
};

}  // namespace millrace::transforms
