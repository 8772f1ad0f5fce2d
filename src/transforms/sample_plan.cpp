#include "transforms/sample_plan.h"

#include <algorithm>
#include <optional>
#include <string>

#include "millrace/error.h"

namespace millrace {
namespace {

// A step of the chain together with what this sample does there.
struct Placed {
  const GeometryStep* step;
  const OpParams* decided;  // null: nothing was drawn
  PictureSize in, out;
};

[[noreturn]] void foreign_params(uint32_t op, PictureSize in) {
  throw Error(ErrorKind::invalid_argument, "the parameters of transform " + std::to_string(op) + " do not fit a picture of " +
                                               std::to_string(in.height) + " x " + std::to_string(in.width) +
                                               " pixels (height x width); draw them for this chain and this picture");
}

bool inside(const Rect& box, PictureSize size) {
  return box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 && box.width <= size.width - box.left &&
         box.height <= size.height - box.top;
}

// Which kind of entry in SampleParams a step must have.
struct ExpectedKind {
  using Kind = OpParams::Kind;
  const Kind* operator()(const RandomResizedCrop&) const { static constexpr Kind k = Kind::resized_crop; return &k; }
  const Kind* operator()(const RandomCrop&) const { static constexpr Kind k = Kind::crop; return &k; }
  const Kind* operator()(const HorizontalFlip&) const { static constexpr Kind k = Kind::flip_horizontal; return &k; }
  const Kind* operator()(const VerticalFlip&) const { static constexpr Kind k = Kind::flip_vertical; return &k; }
  const Kind* operator()(const ExifTranspose&) const { static constexpr Kind k = Kind::orientation; return &k; }
  const Kind* operator()(const Resize&) const { return nullptr; }
  const Kind* operator()(const CenterCrop&) const { return nullptr; }
};

std::vector<Placed> place_steps(const Chain& chain, PictureSize stored, const SampleParams& params) {
  std::vector<Placed> placed;
  placed.reserve(chain.geometry.size());
  PictureSize size = stored;
  size_t next = 0;
  for (const GeometryStep& step : chain.geometry) {
    const OpParams* decided = nullptr;
    if (const auto* kind = std::visit(ExpectedKind{}, step.spec)) {
      if (next == params.ops.size() || params.ops[next].kind != *kind || params.ops[next].op != step.op)
        foreign_params(step.op, size);
      decided = &params.ops[next++];
      if (const auto* crop = std::get_if<RandomCrop>(&step.spec)) {
        if (!inside(decided->box, padded(size, padding_of(*crop, size))) || decided->box.width != crop->width ||
            decided->box.height != crop->height)
          foreign_params(step.op, size);
      } else if (std::holds_alternative<RandomResizedCrop>(step.spec) && !inside(decided->box, size)) {
        foreign_params(step.op, size);
      }
    }
    const PictureSize out = size_after(step, size, decided);
    placed.push_back({&step, decided, size, out});
    size = out;
  }
  return placed;
}

struct Window { int32_t begin, size; };

// The positions that are really read; one pixel where all is padding, so that no input is ever empty.
Window window_of(const IndexList& list) {
  int32_t low = INT32_MAX, high = -1;
  for (const int32_t i : list)
    if (!is_fill(i)) low = std::min(low, i), high = std::max(high, i);
  return high < 0 ? Window{0, 1} : Window{low, high - low + 1};
}

void shift(IndexList& list, int32_t by) {
  for (int32_t& i : list)
    if (!is_fill(i)) i -= by;
}

// How a list runs through its window: +1 all of it forwards, -1 all of it backwards, 0 any other way.
int direction_of(const IndexList& list) {
  if (list.size() == 1) return is_fill(list[0]) ? 0 : 1;
  const int step = list[1] - list[0];
  if ((step != 1 && step != -1) || is_fill(list[0])) return 0;
  for (size_t i = 1; i < list.size(); ++i)
    if (list[i] - list[i - 1] != step || is_fill(list[i])) return 0;
  return step;
}

bool has_fill(const IndexList& list) { return std::any_of(list.begin(), list.end(), is_fill); }

// The resize of a stage that still waits for its input's layout.
struct PendingAxis {
  bool resized = false;
  int32_t in_size = 0, out_size = 0;
  Window window{0, 0};
};
struct PendingResize {
  Interpolation interpolation;
  PendingAxis x, y;
};

class Builder {
 public:
  Builder(PictureSize out, SamplePlan& plan) : plan_(plan) {
    plan_.stage_count = 0;
    plan_.out = out;
    iota(columns_, out.width);
    iota(rows_, out.height);
  }

  void step_back(const Placed& at) {
    at_ = &at;
    std::visit(*this, at.step->spec);
  }

  // Reached the stored picture: `columns_` and `rows_` are positions in it (turned upright if `transposed_`).
  void finish() {
    if (pending_ && (transposed_ || !fits_taps(pending_->x, columns_) || !fits_taps(pending_->y, rows_))) complete_resize(1, 1);
    if (!pending_) open_copy();
    const Window x = window_of(columns_), y = window_of(rows_);
    plan_.region = transposed_ ? Rect{y.begin, x.begin, y.size, x.size} : Rect{x.begin, y.begin, x.size, y.size};
    if (pending_) {
      Stage& stage = current();
      adopt_axis(stage.x, pending_->x, columns_, x);
      adopt_axis(stage.y, pending_->y, rows_, y);
      complete_resize(direction_of(columns_) < 0 ? -1 : 1, direction_of(rows_) < 0 ? -1 : 1);
    } else {
      Stage& stage = current();
      shift(columns_, x.begin);
      shift(rows_, y.begin);
      stage.x.from.swap(columns_);
      stage.y.from.swap(rows_);
      stage.transposed = transposed_;
      close(stage, x.size, y.size);
      if (transposed_) std::swap(stage.in_width, stage.in_height);
    }
  }

  void operator()(const HorizontalFlip&) { if (at_->decided->applied) pull_back_flip(columns_, at_->in.width); }
  void operator()(const VerticalFlip&) { if (at_->decided->applied) pull_back_flip(rows_, at_->in.height); }
  void operator()(const CenterCrop& t) {
    const Rect box = center_crop_box(t, at_->in);
    crop(box.left, box.top, PaddingMode::constant, fill({}));
  }
  void operator()(const RandomCrop& t) {
    const Padding p = padding_of(t, at_->in);
    const Rect& box = at_->decided->box;
    crop(box.left - p.left, box.top - p.top, t.padding_mode, fill(t.fill));
  }
  void operator()(const RandomResizedCrop& t) {
    const Rect& box = at_->decided->box;
    resize(t.interpolation, {box.width, box.height});
    crop(box.left, box.top, PaddingMode::constant, fill({}));
  }
  void operator()(const Resize& t) { resize(t.interpolation, at_->in); }
  // PIL.ImageOps.exif_transpose, undone: 2 to 4 are flips, 5 to 8 flips of the turned picture.
  void operator()(const ExifTranspose&) {
    const int o = at_->decided->orientation;
    if (o == 2 || o == 3 || o == 6 || o == 7) pull_back_flip(columns_, at_->out.width);
    if (o == 3 || o == 4 || o == 7 || o == 8) pull_back_flip(rows_, at_->out.height);
    transposed_ = swaps_axes(o);
  }

 private:
  static void iota(IndexList& list, int32_t size) {
    list.resize(size);
    for (int32_t i = 0; i < size; ++i) list[i] = i;
  }

  Stage& current() { return plan_.stages[plan_.stage_count - 1]; }

  // Later steps get larger numbers, hence smaller entries: where two paddings meet in a corner, the later one is seen.
  int32_t fill(std::array<uint8_t, 3> colour) {
    const uint32_t op = at_->step->op;
    if (plan_.colours.size() <= op) plan_.colours.resize(op + 1);
    plan_.colours[op] = colour;
    return -1 - static_cast<int32_t>(op);
  }

  void crop(int32_t left, int32_t top, PaddingMode mode, int32_t fill_entry) {
    pull_back_crop(columns_, left, at_->in.width, mode, fill_entry);
    pull_back_crop(rows_, top, at_->in.height, mode, fill_entry);
  }

  void resize(Interpolation interpolation, PictureSize in) {
    const PictureSize out = at_->out;
    if (interpolation == Interpolation::nearest) {
      pull_back_nearest(columns_, in.width, out.width, fill({}));
      pull_back_nearest(rows_, in.height, out.height, fill({}));
      return;
    }
    if (in == out) return;
    if (pending_) complete_resize(1, 1);  // the new stage makes exactly the window that the pending one reads
    open_stage();
    Stage& stage = current();
    pending_ = PendingResize{interpolation, begin_axis(interpolation, stage.x, columns_, in.width, out.width),
                             begin_axis(interpolation, stage.y, rows_, in.height, out.height)};
    // Pillow 13's rule for the order of the passes (found by experiment: 5,984 resizes whose result tells, no exception).
    stage.vertical_first = out.height < in.height && int64_t{in.height} - out.height > 2 * (int64_t{in.width} - out.width);
  }

  void open_stage() {
    if (plan_.stages.size() <= plan_.stage_count) plan_.stages.emplace_back();
    Stage& stage = plan_.stages[plan_.stage_count++];
    stage.transposed = stage.vertical_first = stage.has_fill = false;
  }

  // A stage's axis takes over the list behind it and asks for the inputs in front of it. Pillow skips the pass along an axis
  // whose size stays; such an axis is only a list.
  PendingAxis begin_axis(Interpolation interpolation, AxisPlan& axis, IndexList& list, int32_t in_size, int32_t out_size) {
    axis.from.swap(list);
    axis.resized = in_size != out_size;
    axis.straight = false;
    PendingAxis pending{axis.resized, in_size, out_size, window_of(axis.from)};
    if (axis.resized) {
      const int32_t last = pending.window.begin + pending.window.size - 1;
      const int32_t begin = support_of(interpolation, in_size, out_size, pending.window.begin).start;
      pending.window = {begin, support_of(interpolation, in_size, out_size, last).end() - begin};
    }
    list.resize(pending.window.size);
    for (int32_t i = 0; i < pending.window.size; ++i) list[i] = pending.window.begin + i;
    return pending;
  }

  static bool fits_taps(const PendingAxis& pending, const IndexList& list) { return !pending.resized || direction_of(list) != 0; }

  // An axis that keeps its size reads straight through the list in front of it.
  static void adopt_axis(AxisPlan& axis, PendingAxis& pending, const IndexList& list, Window window) {
    if (axis.resized) return;
    shift(axis.from, pending.window.begin);
    for (int32_t& i : axis.from)
      if (!is_fill(i)) i = is_fill(list[i]) ? list[i] : list[i] - window.begin;
    pending.window = {0, window.size};
  }

  void complete_resize(int direction_x, int direction_y) {
    Stage& stage = current();
    complete_axis(stage.x, pending_->x, direction_x);
    complete_axis(stage.y, pending_->y, direction_y);
    close(stage, pending_->x.window.size, pending_->y.window.size);
    pending_.reset();
  }

  void complete_axis(AxisPlan& axis, const PendingAxis& pending, int direction) {
    if (!axis.resized) return shift(axis.from, pending.window.begin);
    make_taps({pending_->interpolation, pending.in_size, pending.out_size, axis.from, pending.window.begin, pending.window.size,
               direction < 0},
              axis.taps);
  }

  void open_copy() {
    open_stage();
    current().x.resized = current().y.resized = false;
  }

  void close(Stage& stage, int32_t in_width, int32_t in_height) {
    stage.in_width = in_width;
    stage.in_height = in_height;
    stage.has_fill = has_fill(stage.x.from) || has_fill(stage.y.from);
    const auto straight = [](const AxisPlan& axis) {
      return !axis.resized && !axis.from.empty() && axis.from[0] == 0 && direction_of(axis.from) == 1;
    };
    stage.x.straight = straight(stage.x);
    stage.y.straight = straight(stage.y);
  }

  SamplePlan& plan_;
  const Placed* at_ = nullptr;
  IndexList columns_, rows_;
  bool transposed_ = false;
  std::optional<PendingResize> pending_;
};

}  // namespace

void make_sample_plan(const Chain& chain, PictureSize stored, const SampleParams& params, SamplePlan& plan) {
  const std::vector<Placed> steps = place_steps(chain, stored, params);
  const PictureSize out = steps.empty() ? stored : steps.back().out;
  if (int64_t{out.width} * out.height > kMaxOutputPixels)
    throw Error(ErrorKind::invalid_argument, "the transforms make a picture of " + std::to_string(out.height) + " x " +
                                                 std::to_string(out.width) + " pixels, more than the limit of " +
                                                 std::to_string(kMaxOutputPixels) + "; use a smaller size or max_size");
  Builder builder(out, plan);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) builder.step_back(*step);
  builder.finish();
}

}  // namespace millrace
