// Worker: one sample from file to row, the straight line of src/README.md as one class.
//
//   prepare   1 read   2 probe   3 draw + plan      -> the row's shape
//   finish    4 decode 5 transform into the row
//
// Split in two so that the caller can find memory of the right shape in between. One Worker per thread; it
// owns the reused buffers (file, pixels, decoder, scratch) and books its time per stage. Throws Error with
// the sample's path.
// With a DecodeShare, steps 4 and 5 of some JPEGs are left to a device: finish() writes nothing then, and
// take_aside() has the file.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/sample_key.h"
#include "loader/decode_share.h"
#include "loader/image_dataset.h"
#include "loader/row_source.h"
#include "trace/stage_times.h"

namespace millrace::loader {

class Worker final : public RowMaker {
 public:
  // `times` and `share` may be null.
  Worker(std::shared_ptr<const ImageDataset> dataset, trace::StageTimes* times,
         std::shared_ptr<DecodeShare> share = nullptr);
  ~Worker() override;

  transforms::OutputShape prepare(const base::SampleKey& key, size_t form = 0) override;
  std::vector<transforms::OutputShape> parts() const override;
  void finish(const RowMemory& memory) override;
  void finish_half(transforms::HalfRow& out) override;
  // As finish(), but the values of a pixel side by side (ImagePipeline::apply_interleaved); of datasets with
  // one view, or forms, without a share.
  void finish_interleaved(void* out);
  std::unique_ptr<RowAside> take_aside() override;

  // The parameters that prepare() drew last, for ds.draw(): of each view.
  std::vector<transforms::SampleParams> params() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The rows of a dataset, made by Workers that leave nothing aside. Throws Error(invalid_argument) for labels
// or views that do not fit.
RowSource picture_rows(const std::shared_ptr<const ImageDataset>& dataset);

}  // namespace millrace::loader
