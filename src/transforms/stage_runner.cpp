#include "transforms/stage_runner.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "transforms/affine_rows.h"
#include "transforms/blur_kernels.h"
#include "transforms/color_kernels.h"
#include "transforms/color_rows.h"
#include "transforms/number_steps.h"

namespace millrace::transforms {
namespace {

void copy_pixel(uint8_t* to, const uint8_t* from) { std::memcpy(to, from, base::kPixelBytes); }

// Fill entries get some pixel; paint_padding() has the last word on them.
void gather_row(const uint8_t* in, const IndexList& from, ptrdiff_t pixel_stride, uint8_t* out) {
  for (const int32_t i : from) {
    copy_pixel(out, in + std::max(i, 0) * pixel_stride);
    out += base::kPixelBytes;
  }
}

void paint_padding(const Stage& stage, const SamplePlan& plan, int32_t y, uint8_t* row) {
  const int32_t row_entry = stage.y.from[y];
  for (size_t x = 0; x < stage.x.from.size(); ++x) {
    const int32_t entry = std::min(row_entry, stage.x.from[x]);
    if (is_fill(entry)) std::memcpy(row + x * base::kPixelBytes, plan.colours[-1 - entry].data(), 3);
  }
}

// Whether the vertical taps' first inputs go one way, so that a few rows are enough between the passes.
enum class Order { up, down, mixed };
Order order_of(const Taps& taps) {
  const std::span starts(taps.start.data(), static_cast<size_t>(taps.count));
  if (std::is_sorted(starts.begin(), starts.end())) return Order::up;
  if (std::is_sorted(starts.rbegin(), starts.rend())) return Order::down;
  return Order::mixed;
}

}  // namespace

void StageRunner::run(const SamplePlan& plan, base::ImageView region, const ValueTable& table, void* out) {
  PlaneSink sink(results_.resize(plan.out.width, kRowGroup), plan.out, table, out);
  run_stages(plan, region, sink);
  finish_numbers(plan.numbers, plan.out, table.type, out);
}

void StageRunner::run(const SamplePlan& plan, base::ImageView region, base::ImageView out) {
  ImageSink sink(out);
  run_stages(plan, region, sink);
}

void StageRunner::run_stages(const SamplePlan& plan, base::ImageView region, RowSink& sink) {
  base::ImageView in = region;
  for (size_t i = 0; i + 1 < plan.stage_count; ++i) {
    const Stage& stage = plan.stage(i);
    const base::ImageView image = between_[i % 2].resize(static_cast<int32_t>(stage.x.from.size()),
                                                         static_cast<int32_t>(stage.y.from.size()));
    ImageSink between(image);
    run_colored(stage, plan, in, between);
    in = image;
  }
  run_colored(plan.stage(plan.stage_count - 1), plan, in, sink);
}

// A step that needs the whole picture waits for the picture's last row. The rows go from picture to picture;
// the rows of the last picture go into the sink.
void StageRunner::run_colored(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink) {
  std::span<const ColorStep> steps = stage.colors;
  const auto width = static_cast<int32_t>(stage.x.from.size()),
             height = static_cast<int32_t>(stage.y.from.size());
  const auto by_rows = [&] {
    const auto next =
        std::find_if(steps.begin(), steps.end(), [](const ColorStep& s) { return s.needs_picture(); });
    return steps.first(static_cast<size_t>(next - steps.begin()));
  };
  std::span<const ColorStep> ready = by_rows();
  if (ready.size() == steps.size()) {
    ColorSink colors(steps, width, sink);
    return run_stage(stage, plan, in, colors);
  }
  size_t turn = 0;
  base::ImageView picture = waiting_[turn].resize(width, height);
  ImageSink first(picture);
  ColorSink colors(ready, width, first);
  run_stage(stage, plan, in, colors);
  while (ready.size() < steps.size()) {
    const PictureChange change(steps[ready.size()], picture, whole_);
    steps = steps.subspan(ready.size() + 1);
    ready = by_rows();
    const bool last = ready.size() == steps.size();
    if (!last) turn ^= 1;
    picture = last ? picture : waiting_[turn].resize(width, height);
    ImageSink image(picture);
    ColorSink next(ready, width, last ? sink : static_cast<RowSink&>(image));
    for (int32_t y = 0; y < height; ++y) {
      uint8_t* out = next.begin(y);
      change.row(y, out);
      next.end(y, out);
    }
  }
}

void StageRunner::run_stage(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink) {
  if (stage.kind == Stage::Kind::affine)
    run_affine(stage, plan, in, sink);
  else if (stage.kind == Stage::Kind::blur)
    run_blur(stage, plan, in, sink);
  else if (stage.x.resized && stage.y.resized && !stage.vertical_first)
    run_horizontal_first(stage, plan, in, sink);
  else
    run_by_rows(stage, plan, in, sink);
}

// Lists the rows that vertical taps read: row r of the picture lies in row r mod source.height of `source`.
// Surplus taps past the last row read the last row again, with weight zero.
void StageRunner::list_rows(base::ImageView source, int32_t height, const Taps& taps) {
  rows_.resize(size_t(height) + 2 * taps.pairs);
  int32_t slot = 0;
  for (int32_t r = 0; r < height; ++r) {
    rows_[r] = source.row(slot);
    if (++slot == source.height) slot = 0;
  }
  std::fill(rows_.begin() + height, rows_.end(), rows_[height - 1]);
}

const uint8_t* StageRunner::vertical(const Stage& stage, base::ImageView in, int32_t output, uint8_t* to) {
  if (!stage.y.resized) return in.row(std::max(0, stage.y.from[output]));
  const Taps& taps = stage.y.taps;
  blend_rows(rows_.data() + taps.start[output], taps.of(output).data(), taps.pairs, in.width, to);
  return to;
}

// Output by output: the vertical pass (or the row itself), then the horizontal pass (or the row's pixels one
// by one).
void StageRunner::run_by_rows(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink) {
  const auto height = static_cast<int32_t>(stage.y.from.size());
  const base::ImageView passes = passes_.resize(in.width, kRowGroup);
  if (stage.y.resized) list_rows(in, in.height, stage.y.taps);
  for (int32_t y = 0; y < height; y += kRowGroup) {
    const int n = std::min<int32_t>(kRowGroup, height - y);
    const uint8_t* upright[kRowGroup];
    uint8_t* outs[kRowGroup];
    const uint8_t* results[kRowGroup];
    for (int r = 0; r < n; ++r) {
      results[r] = outs[r] = sink.begin(y + r);
      if (stage.transposed) {
        const int32_t column = std::max(0, stage.y.from[y + r]);
        gather_row(in.data + column * base::kPixelBytes, stage.x.from, in.stride_bytes, outs[r]);
      } else {
        // With nothing to do along x, the vertical pass may write the result in place.
        upright[r] = vertical(stage, in, y + r, stage.x.straight ? outs[r] : passes.row(r));
      }
    }
    if (stage.x.resized) resample_rows(upright, n, stage.x.taps, outs);
    for (int r = 0; r < n; ++r) {
      if (!stage.x.resized && !stage.transposed) {
        if (stage.x.straight && !stage.has_fill)
          results[r] = upright[r];
        else
          gather_row(upright[r], stage.x.from, base::kPixelBytes, outs[r]);
      }
      if (stage.has_fill) paint_padding(stage, plan, y + r, outs[r]);
      sink.end(y + r, results[r]);
    }
  }
}

// Horizontally resampled rows live in a ring just large enough for the vertical taps; inputs are taken
// kRowGroup rows at a time.
void StageRunner::run_horizontal_first(const Stage& stage, const SamplePlan& plan, base::ImageView in,
                                       RowSink& sink) {
  const Taps& taps = stage.y.taps;
  const auto height = static_cast<int32_t>(stage.y.from.size());
  const Order order = order_of(taps);
  const int32_t groups = (in.height + kRowGroup - 1) / kRowGroup;
  const int32_t ring_groups =
      order == Order::mixed ? groups : std::min(groups, 2 * taps.pairs / kRowGroup + 2);
  const int32_t ring_rows = ring_groups * kRowGroup;
  const base::ImageView ring = passes_.resize(static_cast<int32_t>(stage.x.from.size()), ring_rows);

  list_rows(ring, in.height, taps);

  int32_t ready = 0;
  const auto make_ready = [&](int32_t end) {
    for (; ready < end; ready += kRowGroup) {
      const uint8_t* rows[kRowGroup];
      uint8_t* outs[kRowGroup];
      const int n = std::min<int32_t>(kRowGroup, in.height - ready);
      for (int r = 0; r < n; ++r) rows[r] = in.row(ready + r), outs[r] = rows_[ready + r];
      resample_rows(rows, n, stage.x.taps, outs);
    }
  };
  if (order == Order::mixed) make_ready(in.height);

  for (int32_t i = 0; i < height; ++i) {
    const int32_t y = order == Order::down ? height - 1 - i : i;
    make_ready(std::min(taps.start[y] + 2 * taps.pairs, in.height));
    const uint8_t* const* under = rows_.data() + taps.start[y];
    if (!stage.has_fill) {
      sink.blend(y, under, taps.of(y), ring.width);
      continue;
    }
    uint8_t* out = sink.begin(y);
    blend_rows(under, taps.of(y).data(), taps.pairs, ring.width, out);
    paint_padding(stage, plan, y, out);
    sink.end(y, out);
  }
}

void StageRunner::run_affine(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink) {
  for (int32_t y = 0; y < std::ssize(stage.y.from); ++y) {
    uint8_t* out = sink.begin(y);
    map_row(stage.affine, in, stage.x.from, stage.y.from[y], out);
    if (stage.has_fill) paint_padding(stage, plan, y, out);
    sink.end(y, out);
  }
}

void StageRunner::run_blur(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink) {
  const bool as_it_is = stage.x.straight && !stage.has_fill;
  const auto& [along, down] = stage.blur;
  const size_t in_bytes = size_t(in.width) * base::kPixelBytes,
               out_bytes = in_bytes - (along.size() - 1) * base::kPixelBytes;
  uint8_t* const blurred = passes_.resize(in.width, 1).data;
  sums_.resize(in_bytes);
  for (int32_t y = 0; y < std::ssize(stage.y.from); ++y) {
    uint8_t* out = sink.begin(y);
    weigh_down(in.row(std::max(0, stage.y.from[y])), in.stride_bytes, down, 0, in_bytes, sums_.data());
    weigh_along(sums_.data(), base::kPixelBytes, along, 0, out_bytes, as_it_is ? out : blurred);
    if (!as_it_is) gather_row(blurred, stage.x.from, base::kPixelBytes, out);
    if (stage.has_fill) paint_padding(stage, plan, y, out);
    sink.end(y, out);
  }
}

}  // namespace millrace::transforms
