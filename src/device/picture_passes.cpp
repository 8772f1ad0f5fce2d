#include "device/picture_passes.h"

#include <algorithm>
#include <string>

#include "transforms/box_blur.h"
#include "transforms/color_rows.h"
#include "transforms/resample_taps.h"

namespace millrace::device {
namespace {

using transforms::InverseAffine;
using transforms::PictureSize;
using transforms::PixelOps;

uint32_t packed_fill(const std::array<uint8_t, 3>& fill) { return packed({fill[0], fill[1], fill[2]}); }

int64_t pixels_of(PictureSize size) { return int64_t{size.width} * size.height; }

class Compiler {
 public:
  explicit Compiler(PictureSize first) : size_(first) { made_.slot_pixels = pixels_of(first); }

  // Applies the steps to the picture in `slot`; returns the slot of the result.
  uint8_t apply(std::span<const PictureStep> steps, uint8_t slot) {
    slot_ = slot;
    for (const PictureStep& step : steps) std::visit(*this, step);
    return slot_;
  }
  PicturePasses finish() {
    made_.result = slot_;
    return std::move(made_);
  }

  // Only the CPU does these: why_not_steps() refuses them.
  void operator()(const transforms::TransposeStep&) {}
  void operator()(const transforms::PointStep&) {}

  void operator()(const MoveStep& t) {
    const Pass::Move move{t.box.left, t.box.top, t.flip_horizontal, t.flip_vertical, t.mode};
    add(PassKind::move, {t.box.width, t.box.height}, [&](Pass& p) {
      p.fill = packed_fill(t.fill);
      p.move = move;
    });
  }

  // Pillow skips an axis that keeps its size. The order of the axes follows Pillow 13's rule, as in
  // transforms/sample_plan.cpp.
  void operator()(const ResizeStep& t) {
    const PictureSize in = size_;
    if (t.interpolation == Interpolation::nearest) {
      const double step_x = static_cast<double>(in.width) / t.width,
                   step_y = static_cast<double>(in.height) / t.height;
      return add(PassKind::scale, {t.width, t.height},
                 [&](Pass& p) { p.scale = {step_x * 0.5, step_x, step_y * 0.5, step_y}; });
    }
    const int64_t less_x = int64_t{in.width} - t.width, less_y = int64_t{in.height} - t.height;
    const bool down_first = !t.of_tensor && less_y > 0 && less_y > 2 * less_x;
    if (down_first) resize(PassKind::resize_down, t, in.height, t.height, {in.width, t.height});
    if (less_x != 0) resize(PassKind::resize_across, t, in.width, t.width, {t.width, size_.height});
    if (less_y != 0 && !down_first)
      resize(PassKind::resize_down, t, in.height, t.height, {size_.width, t.height});
  }

  void operator()(const PerspectiveStep& t) {
    add(t.interpolation == Interpolation::nearest    ? PassKind::nearest_perspective
        : t.interpolation == Interpolation::bilinear ? PassKind::bilinear_perspective
                                                     : PassKind::bicubic_perspective,
        size_, [&](Pass& p) {
          p.fill = packed_fill(t.fill);
          std::copy(t.inverse.begin(), t.inverse.end(), p.inverse);
        });
  }

  // As in the CPU's plan, a map to nearest pixels that only scales and moves is looked up along the axes.
  void operator()(const MapStep& t) {
    const InverseAffine& m = t.inverse;
    const bool nearest = t.interpolation == Interpolation::nearest;
    const bool scales = nearest && m[1] == 0 && m[3] == 0;
    add(scales                                       ? PassKind::scale
        : nearest                                    ? PassKind::nearest
        : t.interpolation == Interpolation::bilinear ? PassKind::bilinear
                                                     : PassKind::bicubic,
        size_, [&](Pass& p) {
          p.fill = packed_fill(t.fill);
          if (scales)
            p.scale = {m[2] + m[0] * 0.5, m[0], m[5] + m[4] * 0.5, m[4]};
          else if (nearest)
            p.nearest = transforms::nearest_map(m);
          else
            std::copy(m.begin(), m.end(), p.inverse);
        });
  }

  void operator()(const RecolorStep& t) {
    const auto factor = static_cast<float>(t.value);
    if (PixelOps::has(t.kind)) return recolor({t.kind, false, PixelOps::amount(t.kind, t.value)});
    switch (t.kind) {
      case AugmentKind::contrast: return look_up(PassKind::count_grey, PassKind::contrast_table, factor);
      case AugmentKind::autocontrast:
        return look_up(PassKind::count_channels, PassKind::autocontrast_table, 0);
      case AugmentKind::equalize: return look_up(PassKind::count_channels, PassKind::equalize_table, 0);
      case AugmentKind::sharpness: return add(PassKind::sharpen, size_, [&](Pass& p) { p.factor = factor; });
      case AugmentKind::gaussian_blur: {
        const transforms::Box box = transforms::box_of(t.value);
        for (const PassKind kind : {PassKind::box_across, PassKind::box_down})
          for (int pass = 0; pass < transforms::kBoxPasses; ++pass)
            add(kind, size_, [&](Pass& p) { p.box = box; });
        return;
      }
      default: return;  // nothing, or a map, which is a MapStep
    }
  }

  void operator()(const BlurStep& t) {
    made_.sums = true;
    weigh(PassKind::weigh_down, t.y, slot_);
    weigh(PassKind::weigh_across, t.x, other_slot());
  }

  void operator()(const MixStep& t) {
    const uint8_t picture = slot_;
    keep(picture);
    uint8_t result = picture;
    for (size_t i = 0; i < t.params.copies.size(); ++i) {
      const auto& copy = t.params.copies[i];
      transforms::PictureSteps steps;
      for (const transforms::AugmentStep& step : copy.steps) add_operation(step, t.fill, steps);
      apply(steps, picture);
      if (!t.blended) {
        made_.sums = true;
        add_pass(PassKind::add_share, slot_, size_, [&](Pass& p) {
          p.factor = copy.share;
          p.first = i == 0;
        });
        continue;
      }
      // An existing result changes in place.
      const uint8_t to = result == picture ? other_slot() : result;
      const uint8_t from = slot_;
      add_pass(PassKind::blend, to, size_, [&](Pass& p) {
        p.from = from;
        p.other = result;
        p.factor = copy.share;
      });
      if (result == picture) keep(to);
      result = to;
    }
    if (!t.blended) {
      slot_ = picture;
      result = other_slot();
      add_pass(PassKind::blend_sums, result, size_, [&](Pass& p) {
        p.other = picture;
        p.factor = t.params.share;
      });
    }
    kept_ = 0;
    slot_ = result;
  }

 private:
  void keep(uint8_t slot) { kept_ |= uint32_t{1} << slot; }
  bool kept(uint8_t slot) const { return kept_ >> slot & 1; }

  // Returns the first slot that is not kept and does not hold the current picture.
  uint8_t other_slot() {
    uint8_t slot = 0;
    while (slot == slot_ || kept(slot)) ++slot;
    made_.slots = std::max<int32_t>(made_.slots, slot + 1);
    return slot;
  }

  // Adds a pass from the current picture to slot `to`; the next pass still reads the current picture.
  template <class Set>
  PicturePasses::Planned& add_pass(PassKind kind, uint8_t to, PictureSize out, Set&& set) {
    PicturePasses::Planned& planned = made_.passes.emplace_back();
    Pass& p = planned.pass;
    p.kind = kind;
    p.from = slot_;
    p.to = to;
    p.in_width = size_.width, p.in_height = size_.height;
    p.width = out.width, p.height = out.height;
    made_.slot_pixels = std::max(made_.slot_pixels, pixels_of(out));
    set(p);
    return planned;
  }
  template <class Set>
  void add(PassKind kind, PictureSize out, Set&& set) {
    const uint8_t to = other_slot();
    add_pass(kind, to, out, set);
    size_ = out;
    slot_ = to;
  }

  void resize(PassKind kind, const ResizeStep& t, int32_t in_size, int32_t size, PictureSize out) {
    const int32_t shift =
        t.of_tensor ? kFilterBits - transforms::tensor_weight_bits(t.interpolation, in_size, size) : 0;
    const AxisResize axis{
        size,  0,     in_size, size, taps_of(in_size, size, t.interpolation), t.interpolation,
        false, false, shift};
    const int64_t table = made_.table_entries;
    made_.table_entries += axis_entries(axis);
    add_pass(PassKind::resize_weights, slot_, size_, [&](Pass& p) { p.axis = axis; }).table = table;
    add(kind, out, [&](Pass& p) { p.axis = axis; });
    made_.passes.back().table = table;
  }

  void weigh(PassKind kind, const std::vector<float>& weights, uint8_t to) {
    PicturePasses::Planned& planned =
        add_pass(kind, to, size_, [&](Pass& p) { p.taps = static_cast<int32_t>(weights.size()); });
    planned.weights = std::ssize(made_.weights);
    made_.weights.insert(made_.weights.end(), weights.begin(), weights.end());
    slot_ = to;
  }

  // Joins the previous pass if that changes colours, too, and has room.
  void recolor(Change change, int32_t levels = -1) {
    if (!made_.passes.empty()) {
      PicturePasses::Planned& before = made_.passes.back();
      if (before.pass.kind == PassKind::recolor && before.pass.to == slot_ && !kept(slot_) &&
          (levels < 0 || before.levels < 0)) {
        const auto room = std::find_if(before.pass.changes, before.pass.changes + kMostChanges,
                                       [](const Change& c) { return c.is_none(); });
        if (room != before.pass.changes + kMostChanges) {
          *room = change;
          if (levels >= 0) before.levels = levels;
          return;
        }
      }
    }
    add(PassKind::recolor, size_, [&](Pass& p) {
      std::fill(p.changes, p.changes + kMostChanges, Change{});
      p.changes[0] = change;
    });
    made_.passes.back().levels = levels;
  }

  void look_up(PassKind count, PassKind table, float factor) {
    const int32_t levels = made_.levels++;
    for (const PassKind kind : {count, table})
      add_pass(kind, slot_, size_, [&](Pass& p) { p.factor = factor; }).levels = levels;
    recolor({.looks_up = true}, levels);
  }

  PicturePasses made_;
  PictureSize size_;
  uint8_t slot_ = 0;
  uint32_t kept_ = 0;
};

std::string text_of(PictureSize size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width) + " pixels (height x width)";
}

}  // namespace

PicturePasses passes_of(PictureSize first, std::span<const PictureStep> steps) {
  Compiler compiler(first);
  compiler.apply(steps, 0);
  return compiler.finish();
}

std::string why_not_steps(PictureSize first, std::span<const PictureStep> steps, PictureSize out) {
  PictureSize size = first;
  const auto too_large = [&] {
    return pixels_of(size) > kMostGrowth * pixels_of(out)
               ? "a picture of " + text_of(size) + " between two steps is too large for a result of " +
                     text_of(out)
               : std::string();
  };
  std::string problem = too_large();
  for (const PictureStep& step : steps) {
    if (const auto* blur = std::get_if<BlurStep>(&step))
      if (blur->x.size() % 2 == 0 || blur->y.size() % 2 == 0 || std::ssize(blur->x) / 2 >= size.width ||
          std::ssize(blur->y) / 2 >= size.height)
        return "a blur has an odd number of weights, of which half fit its picture of " + text_of(size);
    if (const auto* map = std::get_if<MapStep>(&step))
      if (map->interpolation > Interpolation::bicubic) return "maps are nearest, bilinear or bicubic";
    if (const auto* map = std::get_if<PerspectiveStep>(&step))
      if (map->interpolation > Interpolation::bicubic) return "perspectives are nearest, bilinear or bicubic";
    if (const auto* mix = std::get_if<MixStep>(&step))
      if (mix->params.copies.empty()) return "a mix has one copy or more";
    if (std::holds_alternative<transforms::TransposeStep>(step) ||
        std::holds_alternative<transforms::PointStep>(step))
      return "turns and tables are made on the CPU";
    if (const auto* resize = std::get_if<ResizeStep>(&step); resize && resize->extent_x)
      return "a resize is of the whole picture";
    size = size_after(step, size);
    if (size.width <= 0 || size.height <= 0) return "a step leaves nothing of its picture";
    if (problem.empty()) problem = too_large();
  }
  if (!problem.empty()) return problem;
  if (size != out) return "the steps make a picture of " + text_of(size) + ", not of " + text_of(out);
  if (std::ssize(passes_of(first, steps).passes) > kMostPasses)
    return "the steps take more than " + std::to_string(kMostPasses) + " passes";
  return "";
}

}  // namespace millrace::device
