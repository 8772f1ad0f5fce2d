// StageRunner: runs the stages of a SamplePlan over pixels, the last one straight into the tensor row, and
// erases there.
//
// Only a few rows are alive between the passes of a resize, so they stay in the first cache. Buffers are
// reused from sample to sample; one owner, one thread.
#pragma once

#include <array>
#include <vector>

#include "base/geometry.h"
#include "transforms/pixel_buffer.h"
#include "transforms/row_sinks.h"
#include "transforms/sample_plan.h"
#include "transforms/value_table.h"

namespace millrace::transforms {

class StageRunner {
 public:
  // `region` holds plan.region. Writes table.planes planes of plan.out, dense, of table.type; those of an
  // interleaved table only for plans without plan.numbers.
  void run(const SamplePlan& plan, base::ImageView region, const ValueTable& table, void* out);
  // The same pixels into rows that have PixelBuffer's slack.
  void run(const SamplePlan& plan, base::ImageView region, base::ImageView out);

 private:
  void run_stages(const SamplePlan& plan, base::ImageView region, RowSink& sink);
  void run_colored(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink);
  void run_stage(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink);
  void run_horizontal_first(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink);
  void run_by_rows(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink);
  void run_affine(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink);
  void run_blur(const Stage& stage, const SamplePlan& plan, base::ImageView in, RowSink& sink);
  void list_rows(base::ImageView source, int32_t height, const Taps& taps);
  const uint8_t* vertical(const Stage& stage, base::ImageView in, int32_t output, uint8_t* to);

  std::array<PixelBuffer, 2> between_;  // pictures between stages, taken in turn
  std::array<PixelBuffer, 2> waiting_;  // pictures that are needed whole, taken in turn
  PictureMemory whole_;                 // of changes that make a whole picture
  PixelBuffer passes_, results_;  // rows between the passes of a resize; rows on their way into a tensor
  std::vector<float> sums_;       // a row between the passes of a blur
  std::vector<uint8_t*> rows_;    // where the rows under the vertical taps are
};

}  // namespace millrace::transforms
