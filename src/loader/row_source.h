// RowSource and RowMaker: what the engine needs to know of a dataset, and nothing else of it.
//
// The engine (claim_queue.h, native_loader.h) moves rows; what a row is, is said here. Worker (worker.h) is the RowMaker of image
// files; tests bring makers that are slow, that throw, or whose shapes vary.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/dtype.h"
#include "base/sample_key.h"
#include "loader/data_loader.h"
#include "trace/stage_times.h"
#include "transforms/image_pipeline.h"

namespace millrace {

// Makes rows, one at a time. One per thread. What it throws belongs to the sample (millrace::Error) or ends the batch (others).
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  virtual OutputShape prepare(const SampleKey& key) = 0;  // what the row's shape will be
  virtual void finish(void* row) = 0;                     // writes the row that was prepared last
};

struct RowSource {
  int64_t size = 0;                        // samples; indices are 0 .. size - 1
  DType type = DType::f32;
  std::optional<OutputShape> fixed_shape;  // when every row has the same
  std::span<const int64_t> labels;         // `size` of them, kept alive by what make_maker holds
  std::function<std::unique_ptr<RowMaker>(StageTimes*)> make_maker;  // called in the thread that will use the maker
};

// DataLoader::create() for any source of rows.
std::unique_ptr<DataLoader> make_loader(RowSource source, const LoaderOptions& options);

}  // namespace millrace
