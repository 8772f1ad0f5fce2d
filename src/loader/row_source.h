// RowSource and RowMaker: what the engine needs to know of a dataset, and nothing else of it.
//
// The engine (engine.h) moves rows; this file says what a row is. Worker (worker.h) is the RowMaker of image
// files; tests bring makers that are slow, that throw, or that vary their shapes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/sample_key.h"
#include "loader/batch_task.h"
#include "loader/data_loader.h"
#include "trace/stage_times.h"
#include "transforms/image_pipeline.h"

namespace millrace::loader {

// Makes rows, one at a time. One per thread. What it throws belongs to the sample (millrace::Error) or ends
// the batch (others).
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  // What the row's shape will be. `form`: of a source that has several.
  virtual transforms::OutputShape prepare(const base::SampleKey& key, size_t form = 0) = 0;
  // The shapes of that row's parts, if it has several; asked for where rows are ragged.
  virtual std::vector<transforms::OutputShape> parts() const { return {}; }
  virtual void finish(const RowMemory& memory) = 0;  // writes the row that was prepared last
  // The same, as RowSource::mixer takes it; of sources that have one.
  virtual void finish_half(transforms::HalfRow&) {}
  virtual std::unique_ptr<RowAside> take_aside() {
    return nullptr;
  }  // what finish() left instead; null: the row is written
};

struct RowSource {
  int64_t size = 0;  // samples; indices are 0 .. size - 1, each perhaps several times; or kTickets
  base::DType type = base::DType::f32;
  std::optional<transforms::OutputShape> fixed_shape;  // when every row has the same
  // Of rows that can be made in several forms, of which a batch has one: fixed_shape of each, in its place.
  // Empty: there is one form, 0.
  std::vector<std::optional<transforms::OutputShape>> forms = {};
  // The parts of a row, each a block of the batch; empty: a row is one part. fixed_shape is then {1, 1,
  // elements}.
  std::vector<transforms::OutputShape> parts = {};
  bool ragged = false;                          // a batch's rows have shapes of their own: Batch::ragged
  const transforms::RowMixer* mixer = nullptr;  // of rows that can be mixed with each other
  std::span<const int64_t> labels;  // `size` of them, kept alive by what make_maker holds; empty: all are 0
  std::function<std::unique_ptr<RowMaker>(trace::StageTimes*)>
      make_maker;  // called in the thread that will use the maker

  // For sources with makers that leave rows aside, both are set. The consumer calls `complete`, once for each
  // batch that the workers are through with, before holes are filled: it takes `asides` and returns the rows
  // that are still to be made. An error that it throws is the batch's. The consumer makes these rows, and
  // fillers, by makers that leave nothing aside.
  std::function<std::vector<int64_t>(BatchTask&)> complete = {};
  std::function<std::unique_ptr<RowMaker>(trace::StageTimes*)> make_whole_maker = {};
};

// DataLoader::create() for any source of rows.
std::unique_ptr<DataLoader> make_loader(RowSource source, const LoaderOptions& options);

}  // namespace millrace::loader
